# Transform data frames by the parameters.json of securefedyj, and back. Needs jsonlite.
#
#   source("securefedyj.R")
#   fit <- read_parameters("parameters.json")
#   scaled <- predict(fit, rows)
#   rows_again <- predict(fit, scaled, inverse = TRUE)
#
# License: Apache-2.0. docs/r.md describes the functions, docs/parameters.md the file.

# Read a parameters.json, of any version from 1 to 4.
read_parameters <- function(path) {
  file <- jsonlite::fromJSON(path, simplifyVector = FALSE)
  if (!identical(file$format, "securefedyj parameters")) {
    stop(path, " is not a parameters.json of securefedyj", call. = FALSE)
  }
  if (!isTRUE(file$version %in% 1:4)) {
    stop(path, " is of version ", format(file$version), ", and this function reads 1 to 4: get a ",
         "newer securefedyj.R", call. = FALSE)
  }
  agreed <- file$agreement
  names <- vapply(agreed$features, identity, "")
  columns <- lapply(seq_along(names), function(j) {
    asked <- if (is.null(agreed$methods)) list("yeo-johnson" = list()) else agreed$methods[[j]]
    list(methods = asked, lower = agreed$lower[[j]], upper = agreed$upper[[j]],
         fits = list(), quantiles = list())
  })
  names(columns) <- names
  for (found in file$features) {
    method <- if (is.null(found$method)) "yeo-johnson" else found$method
    if (is.null(found$center_low)) found$center_low <- 0 # version 1 has none
    columns[[found$name]]$fits[[method]] <- found
  }
  for (found in file$quantiles) {
    value <- if (is.null(found$value)) NA_real_ else as.numeric(found$value)
    columns[[found$name]]$quantiles[[found$quantile]] <- value
  }
  structure(list(columns = columns, standardize = file$standardize,
                 consortium = file$consortium$name), class = "securefedyj")
}

# Transform the columns of the run, by their names; the others stay as they are.
#
# inverse      undo the transformation
# use          "scale"; or "median" or "mean", to replace missing values by those of all silos
# outside      for values outside the agreed bounds: "error", "clip" to the bound, or "keep"
# standardize  mean 0 and variance 1 for yeo-johnson and box-cox; by default as in the file
predict.securefedyj <- function(object, newdata, inverse = FALSE,
                                use = c("scale", "median", "mean"),
                                outside = c("error", "clip", "keep"),
                                standardize = object$standardize, ...) {
  use <- match.arg(use)
  outside <- match.arg(outside)
  lacking <- setdiff(names(object$columns), names(newdata))
  if (length(lacking)) {
    stop("the data frame has no column ", paste(shQuote(lacking), collapse = ", "),
         "; if read.csv has changed names, use check.names = FALSE", call. = FALSE)
  }
  for (name in names(object$columns)) {
    column <- object$columns[[name]]
    values <- newdata[[name]]
    if (!is.numeric(values) && !all(is.na(values))) {
      stop("column ", shQuote(name), " does not hold numbers", call. = FALSE)
    }
    values <- as.numeric(values)
    if (!inverse) values <- .sfy_within(values, column, name, outside)
    newdata[[name]] <- if (use == "scale") {
      .sfy_scaled(values, column, name, inverse, standardize)
    } else if (inverse) {
      values
    } else {
      ifelse(is.na(values), .sfy_fill(column, use), values)
    }
  }
  newdata
}

print.securefedyj <- function(x, ...) {
  run <- if (is.null(x$consortium)) "" else paste0(" of run ", shQuote(x$consortium))
  cat("Parameters", run, ":\n", sep = "")
  for (name in names(x$columns)) {
    cat(" ", name, ": ", paste(names(x$columns[[name]]$methods), collapse = ", "), "\n", sep = "")
  }
  invisible(x)
}

.sfy_within <- function(values, column, name, outside) {
  if (outside == "keep") return(values)
  beyond <- !is.na(values) & (values < column$lower | values > column$upper)
  if (outside == "error" && any(beyond)) {
    stop(sum(beyond), " values of ", shQuote(name), " lie outside the agreed bounds ",
         column$lower, " to ", column$upper, ": use outside = \"clip\" or \"keep\"", call. = FALSE)
  }
  pmin(pmax(values, column$lower), column$upper)
}

.sfy_fill <- function(column, use) {
  if (use == "median") {
    value <- column$quantiles[["0.5"]]
  } else {
    fit <- column$fits[["standard"]]
    value <- if (isTRUE(fit$n > 0)) as.numeric(fit$mean)
  }
  if (is.null(value)) NA_real_ else value
}

# By the first of these methods that the column has.
.sfy_scaled <- function(values, column, name, inverse, standardize) {
  for (method in c("yeo-johnson", "box-cox")) {
    fit <- column$fits[[method]]
    if (is.null(fit)) next
    if (method == "box-cox" && !inverse && any(values <= 0, na.rm = TRUE)) {
      stop("Box-Cox is for positive values, but ", shQuote(name), " has others", call. = FALSE)
    }
    formulas <- if (method == "box-cox") .sfy_box_cox else .sfy_yeo_johnson
    does <- paste0(if (inverse) "un", if (standardize) "standardize" else "transform")
    # The branches of ifelse that are not taken may be NaN.
    made <- suppressWarnings(formulas[[does]](values, fit))
    return(.sfy_held(made, values, name, inverse))
  }
  if (!is.null(fit <- column$fits[["standard"]])) {
    return(.sfy_affine(values, fit$center, fit$center_low, fit$width, inverse))
  }
  if (is.null(three <- column$methods[["robust"]])) return(values)
  three <- unlist(three)
  center <- if ("0.5" %in% three) "0.5" else three[2]
  ends <- column$quantiles[setdiff(three, center)]
  width <- ends[[2]] - ends[[1]]
  at <- column$quantiles[[center]]
  if (is.na(at) || is.na(width)) {
    warning(shQuote(name), ": its values stay as they are, as a quantile of it was refused")
    return(values)
  }
  .sfy_affine(values, at, 0, if (width == 0) 1 else width, inverse)
}

.sfy_affine <- function(x, center, low, width, inverse) {
  if (inverse) center + (x * width + low) else ((x - center) - low) / width
}

# What has no original becomes infinite or NaN; what is too large becomes the largest number.
.sfy_held <- function(made, values, name, inverse) {
  if (any(!is.finite(made) & !is.na(values))) {
    warning("some values of ", shQuote(name), " lie beyond what the transformation can hold")
  }
  if (inverse) made else pmin(pmax(made, -.Machine$double.xmax), .Machine$double.xmax)
}

# (exp(u L) - 1) / u, and its inverse. Both keep all digits where the formula cancels, and stay
# finite where its parts overflow.
.sfy_power <- function(L, u) {
  z <- u * L
  ifelse(abs(z) < 1e-10, L + L * z / 2,
         ifelse(z > 700, sign(u) * exp(z - log(abs(u))), expm1(z) / u))
}

.sfy_inverse_power <- function(y, u, log_scale = 0) {
  Y <- y * exp(log_scale)
  z <- u * Y
  ifelse(abs(z) < 1e-10, Y - Y * z / 2,
         ifelse(z == Inf, (log(abs(u)) + log(abs(y)) + log_scale) / u, log1p(z) / u))
}

# exp(log_scale) (exp(u L) - 1) / u for L >= 0, where the factors may overflow apart.
.sfy_power_scaled <- function(L, u, log_scale) {
  z <- u * L
  root <- exp((z + log_scale) / 2)
  ifelse(z > 1, root * (-expm1(-z) / u) * root,
         ifelse(L == 0, 0, exp(log_scale) * .sfy_power(L, u)))
}

.sfy_yeo_johnson <- list(
  transform = function(x, fit) {
    u <- ifelse(x >= 0, fit$lambda, 2 - fit$lambda)
    ifelse(x >= 0, 1, -1) * .sfy_power(log1p(abs(x)), u)
  },
  untransform = function(y, fit) {
    u <- ifelse(y >= 0, fit$lambda, 2 - fit$lambda)
    sign(y) * expm1(.sfy_inverse_power(abs(y), u))
  },
  # On the side of the center c: (((1 + |x|) / (1 + |c|))^u - 1) / (u width).
  standardize = function(x, fit) {
    at <- .sfy_center(fit)
    difference <- (abs(x) - at$center) - at$low
    # Among close values the logarithms would cancel.
    near <- fit$width < 0.01 * at$L & abs(difference) <= (1 + at$center) / 2
    ratio <- ifelse(near, log1p(pmax(difference / (1 + at$center), -0.5)), log1p(abs(x)) - at$L)
    same <- (x >= 0) == (at$side > 0) | x == 0
    # Across zero x and the mean have different signs: the distance is a sum.
    other <- .sfy_power(-at$L, at$u) - .sfy_power_scaled(log1p(abs(x)), 2 - at$u, -at$u * at$L)
    at$side * ifelse(same, .sfy_power(ratio, at$u), other) / fit$width
  },
  unstandardize = function(z, fit) {
    at <- .sfy_center(fit)
    distance <- z * (at$side * fit$width)
    beyond <- .sfy_power(-at$L, at$u) - distance
    delta <- .sfy_inverse_power(distance, at$u)
    same <- ifelse(abs(delta) < 0.5, at$center + ((1 + at$center) * expm1(delta) + at$low),
                   expm1(at$L + delta))
    other <- -expm1(.sfy_inverse_power(beyond, 2 - at$u, at$u * at$L))
    at$side * ifelse(beyond > 0, other, same)
  }
)

.sfy_center <- function(fit) {
  side <- if (fit$center >= 0) 1 else -1
  list(center = abs(fit$center), side = side, low = side * fit$center_low,
       L = log1p(abs(fit$center)), u = if (side > 0) fit$lambda else 2 - fit$lambda)
}

.sfy_box_cox <- list(
  transform = function(x, fit) .sfy_power(log(x), fit$lambda),
  untransform = function(y, fit) exp(.sfy_inverse_power(y, fit$lambda)),
  # (((x / c)^lambda - 1) / lambda) / width
  standardize = function(x, fit) {
    difference <- (x - fit$center) - fit$center_low
    ratio <- x / fit$center
    log_ratio <- ifelse(ratio > 1e-300 & ratio < Inf, log(ratio), log(x) - log(fit$center))
    near <- abs(difference) <= fit$center / 2
    distance <- ifelse(near, log1p(pmax(difference / fit$center, -0.5)), log_ratio)
    .sfy_power(distance, fit$lambda) / fit$width
  },
  unstandardize = function(z, fit) {
    distance <- .sfy_inverse_power(z * fit$width, fit$lambda)
    half <- exp(distance / 2) # of a factor that may overflow where the product does not
    ifelse(abs(distance) < 0.5, fit$center + (fit$center * expm1(distance) + fit$center_low),
           fit$center * half * half)
  }
)
