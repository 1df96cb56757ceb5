/* All loops, compiled for one set of instructions: LEVEL is its name. */
#include "sums.h"
#include "weighed.h"
#include "pooled.h"
#include "products.h"
#include "proofs.h"

#define JOINED(a, b) a##b
#define NAMED(level) JOINED(kernel_, level)
#define TEXT(level) #level
#define TEXT_OF(level) TEXT(level)

const struct kernel NAMED(LEVEL) = {
    TEXT_OF(LEVEL), arrange, sums, weighed, ranks, products, survey, distances, row_sums, transpose,
    combine, bit_planes, field_multiply, field_weighted, evaluated, gate_sums,
};
