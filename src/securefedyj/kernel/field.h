/* The field GF(2^64) for engines/replicated/field.py: modulo x^64 + x^4 + x^3 + x + 1.
 *
 * No branch and no address depends on an element.
 */
#ifndef SECUREFEDYJ_FIELD_H
#define SECUREFEDYJ_FIELD_H

#include "kernel.h"
#if defined(__PCLMUL__)
#include <immintrin.h>
#endif

/* A polynomial of degree below 128, not reduced yet. */
struct wide_element {
    uint64_t low, high;
};

#if defined(__PCLMUL__)

static inline struct wide_element carryless(uint64_t a, uint64_t b)
{
    __m128i product = _mm_clmulepi64_si128(_mm_cvtsi64_si128((long long)a),
                                           _mm_cvtsi64_si128((long long)b), 0);
    return (struct wide_element){(uint64_t)_mm_cvtsi128_si64(product),
                                 (uint64_t)_mm_cvtsi128_si64(_mm_unpackhi_epi64(product, product))};
}

#else

/* By products of integers with three holes between any two bits: at most 16 ones meet at one place
 * of the product of 64 bits, so what is carried beyond the holes is cut off in the low half; the
 * high half is the low half of the product of the reversed polynomials. */
static inline uint64_t carryless_low(uint64_t a, uint64_t b)
{
    const uint64_t hole = 0x1111111111111111;
    uint64_t x[4], y[4], result = 0;
    for (int k = 0; k < 4; k++) {
        x[k] = a & hole << k;
        y[k] = b & hole << k;
    }
    for (int k = 0; k < 4; k++) {
        uint64_t sum = 0;
        for (int j = 0; j < 4; j++)
            sum ^= x[j] * y[(k - j) & 3];
        result |= sum & hole << k;
    }
    return result;
}

static inline uint64_t reversed(uint64_t a)
{
    const uint64_t masks[] = {0x5555555555555555, 0x3333333333333333, 0x0F0F0F0F0F0F0F0F,
                              0x00FF00FF00FF00FF, 0x0000FFFF0000FFFF};
    for (int k = 0; k < 5; k++)
        a = (a >> (1 << k) & masks[k]) | (a & masks[k]) << (1 << k);
    return a >> 32 | a << 32;
}

static inline struct wide_element carryless(uint64_t a, uint64_t b)
{
    return (struct wide_element){carryless_low(a, b),
                                 reversed(carryless_low(reversed(a), reversed(b))) >> 1};
}

#endif

static inline uint64_t reduced(struct wide_element a)
{
    uint64_t high = a.high ^ a.high >> 63 ^ a.high >> 61 ^ a.high >> 60;
    return a.low ^ high ^ high << 1 ^ high << 3 ^ high << 4;
}

static inline uint64_t times(uint64_t a, uint64_t b) { return reduced(carryless(a, b)); }

/* Product with x^by, for 0 <= by < 64. */
static inline uint64_t times_power(uint64_t a, int64_t by)
{
    return reduced((struct wide_element){a << by, a >> 1 >> (63 - by)});
}

/* The products of two vectors. */
static void field_multiply(const uint64_t *a, const uint64_t *b, int64_t size, uint64_t *result)
{
    for (int64_t k = 0; k < size; k++)
        result[k] = times(a[k], b[k]);
}

/* The sum of weight[w] x^j values[64 w + j]. */
static uint64_t field_weighted(const uint64_t *values, const uint64_t *weights, int64_t words)
{
    struct wide_element total = {0, 0};
    for (int64_t w = 0; w < words; w++) {
        struct wide_element sum = {values[64 * w], 0};
        for (int j = 1; j < 64; j++) {
            sum.low ^= values[64 * w + j] << j;
            sum.high ^= values[64 * w + j] >> (64 - j);
        }
        struct wide_element product = carryless(reduced(sum), weights[w]);
        total.low ^= product.low;
        total.high ^= product.high;
    }
    return reduced(total);
}

#endif
