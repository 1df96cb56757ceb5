/* The passes of the pooled fit: see pooled/likelihood.py for what they compute.
 *
 * Sums of float64 are taken in LANES, whatever the width of the vectors: the values at a place
 * modulo LANES in order, over SOME values at a time, and then the lanes by halves.
 */
#include "kernel.h"
#include "vectors.h"

#define LANES 8
#define SOME 512
/* Below this, log(1+x) is x. */
#define TINY 1e-290
/* e^z is as good as 0 below this, and a normal number above. */
#define LEAST_EXPONENT -700.0
#define INFINITE __builtin_inf()

INLINE double folded(double *lanes)
{
    for (int half = LANES / 2; half; half /= 2)
        for (int j = 0; j < half; j++)
            lanes[j] += lanes[half + j];
    return lanes[0];
}

static void survey_one(const double *x, int64_t rows, int64_t *counts, double *lowest,
                       double *highest)
{
    vi negative = {0}, other = {0};
    vd low[2] = {all(INFINITE), all(INFINITE)}, high[2] = {all(-INFINITE), all(-INFINITE)};
    for (int64_t i = 0; i < rows; i += WIDTH) {
        vd v = all(__builtin_nan(""));
        if (i + WIDTH <= rows)
            v = load(x + i);
        else
            for (int j = 0; j < rows - i; j++)
                v[j] = x[i + j];
        mask below = less(v, all(0.0)), above = at_most(all(0.0), v);
        negative -= as_bits(below);
        other -= as_bits(above);
        vd a = choose(below, v, low[0]), b = choose(below, v, high[0]);
        low[0] = choose(less(a, low[0]), a, low[0]);
        high[0] = choose(less(high[0], b), b, high[0]);
        a = choose(above, v, low[1]), b = choose(above, v, high[1]);
        low[1] = choose(less(a, low[1]), a, low[1]);
        high[1] = choose(less(high[1], b), b, high[1]);
    }
    counts[0] = total_i(negative);
    counts[1] = total_i(other);
    for (int k = 0; k < 2; k++) {
        lowest[k] = INFINITE;
        highest[k] = -INFINITE;
        for (int j = 0; j < WIDTH; j++) {
            lowest[k] = low[k][j] < lowest[k] ? low[k][j] : lowest[k];
            highest[k] = high[k][j] > highest[k] ? high[k][j] : highest[k];
        }
    }
}

/* Counts and extremes of each feature: first of the values < 0, then of the others. */
static void survey(const double *values, int64_t features, int64_t stride, int64_t rows,
                   int64_t *counts, double *lowest, double *highest)
{
    for (int64_t j = 0; j < features; j++)
        survey_one(values + j * stride, rows, counts + 2 * j, lowest + 2 * j, highest + 2 * j);
}

/* Write |x| of those values that belong to a side, and return how many these are. */
static int64_t magnitudes(const double *values, int64_t rows, double least, double most,
                          double *out)
{
    int64_t n = 0;
    for (int64_t i = 0; i < rows; i++) {
        double x = values[i];
        out[n] = __builtin_fabs(x); /* overwritten by the next one, if it does not belong */
        n += (x >= least) & (x <= most);
    }
    return n;
}

/* D / s of the values of a side, padded with zeros to a multiple of LANES. */
static void distances(const double *values, int64_t rows, const struct yardstick *by, double *out,
                      int64_t *length)
{
    int64_t n = by->complete ? rows : magnitudes(values, rows, by->least, by->most, out);
    int64_t padded = (n + LANES - 1) / LANES * LANES;
    if (by->complete)
        memmove(out, values, (size_t)n * 8);
    for (int64_t i = n; i < padded; i++)
        out[i] = by->reference;
    *length = padded;
    const vd c = all(by->reference), log_c = all(by->log_reference), size = all(by->size);
    for (int64_t i = 0; i < padded; i += WIDTH) {
        vd x = magnitude(load(out + i)), of = x;
        if (by->close == 2) {
            store(out + i, log_ratio_of(x, c) / size);
            continue;
        }
        mask whole = equal(x, x);
        if (by->close) {
            vd share = (x - c) / (1.0 + c);
            whole = less(share, all(-0.5)); /* where 1 + share would lose its digits */
            of = choose(whole, x, share);
        }
        vd log = choose(less(magnitude(of), all(TINY)), of, log1p_of(of));
        store(out + i, choose(whole, log - log_c, log) / size);
    }
}

INLINE void series_terms(vd D, vd kappa, vd *t)
{
    vd z = kappa * D, phi4;
    static const double c[] = {1.0 / 6227020800.0 / 14, 1.0 / 6227020800.0, 1.0 / 479001600,
                               1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320,
                               1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24};
    phi4 = all(c[0]);
    for (int k = 1; k < 11; k++)
        phi4 = phi4 * z + c[k];
    vd phi3 = 1.0 / 6 + z * phi4, phi2 = 0.5 + z * phi3, phi1 = 1.0 + z * phi2;
    t[0] = D * phi1;
    t[1] = D * D * (phi1 - phi2);
    t[2] = D * D * D * (phi1 - 2.0 * phi2 + 2.0 * phi3);
    t[3] = D * D * (D * D) * (phi1 - 3.0 * phi2 + 6.0 * phi3 - 6.0 * phi4);
}

INLINE void exponential_terms(vd D, vd kappa, vd shift, vd one, vd *t)
{
    vd z = kappa * D - shift, T;
    z = choose(less(z, all(LEAST_EXPONENT)), all(LEAST_EXPONENT), z);
    vd r = reduce(z, &T), e = exp_of(r) * T;
    t[1] = D * e;
    t[2] = D * t[1];
    t[3] = D * t[2];
    t[0] = e - one;
}

INLINE void add_terms(const int series, const double *D, int64_t n, double kappa, double shift,
                      double one, double (*lanes)[LANES])
{
    for (int at = 0; at < LANES; at += WIDTH) {
        vd s[ROW_SUMS] = {{0}};
        for (int64_t i = at; i < n; i += LANES) {
            vd d = load(D + i), t[4];
            if (series)
                series_terms(d, all(kappa), t);
            else
                exponential_terms(d, all(kappa), all(shift), all(one), t);
            s[0] += t[0];
            s[1] += t[1];
            s[2] += t[2];
            s[3] += t[0] * t[0];
            s[4] += t[0] * t[1];
            s[5] += t[1] * t[1];
            s[7] += d;
            s[8] += t[3];
            s[9] += t[1] * t[2];
            if (series) {
                s[6] += t[0] * t[2];
                s[10] += t[0] * t[3];
            }
        }
        for (int k = 0; k < ROW_SUMS; k++)
            store(lanes[k] + at, load(lanes[k] + at) + s[k]);
    }
}

/* The sums of a side over one piece. Of exponentials, those that follow from others stay 0. */
static void row_sums(const double *D, int64_t n, double kappa, double shift, double one,
                     int64_t small, double *sums)
{
    double lanes[ROW_SUMS][LANES] = {{0}};
    for (int64_t first = 0; first < n; first += SOME) {
        int64_t some = n - first < SOME ? n - first : SOME;
        if (small)
            add_terms(1, D + first, some, kappa, shift, one, lanes);
        else
            add_terms(0, D + first, some, kappa, shift, one, lanes);
    }
    for (int k = 0; k < ROW_SUMS; k++)
        sums[k] = folded(lanes[k]);
}

/* Write the columns of a table one behind the other, each with that much room. */
static void transpose(const double *x, int64_t rows, int64_t row_stride, int64_t column_stride,
                      int64_t columns, int64_t room, double *out)
{
    enum { TOGETHER = 8 };
    int64_t j = 0;
    for (; j + TOGETHER <= columns; j += TOGETHER)
        for (int64_t i = 0; i < rows; i++)
            for (int k = 0; k < TOGETHER; k++)
                out[(j + k) * room + i] = x[i * row_stride + (j + k) * column_stride];
    for (int64_t first = 0; j < columns && first < rows; first += SOME) {
        int64_t last = rows - first < SOME ? rows : first + SOME;
        for (int64_t k = j; k < columns; k++)
            for (int64_t i = first; i < last; i++)
                out[k * room + i] = x[i * row_stride + k * column_stride];
    }
}
