/* The loops of the kernel, once for each set of instructions that it is compiled for. */
#ifndef SECUREFEDYJ_KERNEL_H
#define SECUREFEDYJ_KERNEL_H

#include <stddef.h>
#include <stdint.h>

/* Rows are padded with zeros to a multiple of PADDING, and taken in blocks of at most BLOCK. */
#define PADDING 32
#define BLOCK 512
/* Rows that are summed at once: sums of 2^24 products of 2^100 have room in 128 bits. */
#define MOST_ROWS_SUMMED ((int64_t)1 << 24)
#define PHI_DIGITS 2
/* Bits of y and d, and their digits: the range of lambda ends before a value has more. */
#define MOST_BITS 832
#define MOST_DIGITS 32
/* Limbs of a sum, and words of 32 bits beyond it that make room for carries. */
#define MOST_LIMBS 64
/* Of a row that is weighed: how many weights, and digits of each. */
#define MOST_WEIGHTS 2
#define WEIGHT_DIGITS 3
/* Sums of a pass of the pooled fit. */
#define ROW_SUMS 11
/* Of a proof of gates: the most rows, and words of 64 columns in a page. */
#define MOST_ROWS 128
#define PAGE_WORDS 8
/* Sums of a proof: of a b + c d, of eight bits of elements of GF(2^8), and of masks. */
#define GATE_SUMS 10

struct pair {
    int64_t feature;
    int64_t grid;
    int64_t bits_y, bits_d; /* of the largest |y| and |d|, in units of the grid */
    int64_t decaying; /* the sign of the side that decays, or 0 */
    /* Of the side of the values >= 0, and of that of the values < 0: */
    int64_t kind[2];
    int64_t skipped[2]; /* bits of the grid that the side leaves out */
    double u[2];
};

/* Which values a side holds, and how their distances are measured. */
struct yardstick {
    int64_t position; /* of its feature */
    int64_t complete; /* whether it holds all rows */
    int64_t close;    /* whether D is taken from the difference to the reference; 2 if log(x/c) */
    double least, most, reference, log_reference, size;
};

enum { NEAR, GENERAL, DECAYING };

struct kernel {
    const char *name;
    int64_t (*arrange)(const double *x, int64_t features, int64_t rows, const double *lower,
                       const double *upper, const double *least, const double *phi_scale,
                       double *values, int64_t room, int64_t *count, int64_t *phi);
    void (*sums)(const double *values, int64_t room, int64_t first_row, int64_t last_row,
                 const struct pair *pairs, int64_t count, int64_t first, int64_t last,
                 int64_t limbs, uint64_t *result);
    void (*weighed)(const double *values, const int64_t *start, const int64_t *weights,
                    int64_t several, int64_t stride, const struct pair *pairs, int64_t count,
                    int64_t first, int64_t last, int64_t limbs, uint64_t *result);
    void (*ranks)(const double *values, int64_t room, const int64_t *rows, const double *points,
                  int64_t first, int64_t last, int64_t *result);
    void (*products)(const uint64_t *a, const uint64_t *b, int64_t limbs, int64_t limbs_b,
                     int64_t terms, int64_t size, int64_t first, int64_t last, uint64_t *result);
    void (*survey)(const double *values, int64_t features, int64_t stride, int64_t rows,
                   int64_t *counts, double *lowest, double *highest);
    void (*distances)(const double *values, int64_t rows, const struct yardstick *by, double *out,
                      int64_t *length);
    void (*row_sums)(const double *D, int64_t n, double kappa, double shift, double one,
                     int64_t small, double *sums);
    void (*transpose)(const double *x, int64_t rows, int64_t row_stride, int64_t column_stride,
                      int64_t columns, int64_t room, double *out);
    void (*combine)(const uint64_t *a, const uint64_t *b, int64_t outer, int64_t limbs,
                    int64_t size, int64_t subtract, uint64_t *result);
    /* The engine: see bits.h, field.h and proofs.h. */
    void (*bit_planes)(const uint64_t *values, int64_t limbs, int64_t size, uint8_t *planes);
    void (*field_multiply)(const uint64_t *a, const uint64_t *b, int64_t size, uint64_t *result);
    uint64_t (*field_weighted)(const uint64_t *values, const uint64_t *weights, int64_t words);
    void (*evaluated)(const uint8_t *bits, int64_t columns, int64_t rows,
                      const uint64_t *coefficients, int64_t first, int64_t last, uint64_t *result);
    void (*gate_sums)(const uint8_t *const bits[4], const uint64_t *const masks[4], int64_t columns,
                      int64_t rows, const uint64_t *weights, const uint8_t *chosen, int64_t first,
                      int64_t last, uint64_t *result);
};

#endif
