/* Vectors of float64 and int64, and the elementary functions of docs/protocol.md, section 4.1.
 *
 * Every operation is an IEEE addition, subtraction, multiplication or division, or an operation on
 * integers, in the order that is written here. So a value has the same bits whatever the width of
 * the vectors. Compile with -ffp-contract=off and without -ffast-math.
 */
#ifndef SECUREFEDYJ_VECTORS_H
#define SECUREFEDYJ_VECTORS_H

#include <stdint.h>
#include <string.h>

#if defined(__AVX512F__) && defined(__AVX512DQ__)
#include <immintrin.h>
#define WIDTH 8
#elif defined(__AVX2__)
#include <immintrin.h>
#define WIDTH 4
#else
#define WIDTH 2
#endif

#define INLINE static inline __attribute__((always_inline))

typedef double vd __attribute__((vector_size(8 * WIDTH)));
typedef int64_t vi __attribute__((vector_size(8 * WIDTH)));
typedef uint64_t vu __attribute__((vector_size(8 * WIDTH)));

#define ABS_BITS 0x7FFFFFFFFFFFFFFF
/* A float64 of this size has no bits behind the binary point: adding it rounds to an integer. */
#define ROUND 0x1.8p52
#define LN2_HIGH 0x1.62e42fee00000p-1
#define LN2_LOW 0x1.a39ef35793c76p-33
#define LOG2_E 0x1.71547652b82fep+0
#define SQRT_HALF_BITS 0x3FE6A09E667F3BCD
#define MANTISSA_BITS 0x000FFFFFFFFFFFFF

INLINE vd load(const double *x) { vd v; memcpy(&v, x, sizeof v); return v; }
INLINE vi load_i(const int64_t *x) { vi v; memcpy(&v, x, sizeof v); return v; }
INLINE void store(double *x, vd v) { memcpy(x, &v, sizeof v); }
INLINE void store_i(int64_t *x, vi v) { memcpy(x, &v, sizeof v); }
INLINE vd all(double x) { return x - (vd){0}; }
INLINE vi all_i(int64_t x) { return x - (vi){0}; }
INLINE vd magnitude(vd x) { return (vd)((vi)x & ABS_BITS); }

/* Masks: what a comparison gives, and what chooses between two vectors without a branch. */
#if WIDTH == 8
typedef __mmask8 mask;
INLINE mask less(vd a, vd b) { return _mm512_cmp_pd_mask((__m512d)a, (__m512d)b, _CMP_LT_OQ); }
INLINE mask at_most(vd a, vd b) { return _mm512_cmp_pd_mask((__m512d)a, (__m512d)b, _CMP_LE_OQ); }
INLINE mask equal(vd a, vd b) { return _mm512_cmp_pd_mask((__m512d)a, (__m512d)b, _CMP_EQ_OQ); }
INLINE vd choose(mask m, vd a, vd b)
{
    return (vd)_mm512_mask_blend_pd(m, (__m512d)b, (__m512d)a);
}
INLINE vi as_bits(mask m) { return (vi)_mm512_movm_epi64(m); }
INLINE mask as_mask(vi bits) { return _mm512_movepi64_mask((__m512i)bits); }
#else
typedef vi mask;
INLINE mask less(vd a, vd b) { return a < b; }
INLINE mask at_most(vd a, vd b) { return a <= b; }
INLINE mask equal(vd a, vd b) { return a == b; }
INLINE vd choose(mask m, vd a, vd b)
{
#if WIDTH == 4
    return (vd)_mm256_blendv_pd((__m256d)b, (__m256d)a, (__m256d)m);
#else
    return (vd)((m & (vi)a) | (~m & (vi)b));
#endif
}
INLINE vi as_bits(mask m) { return m; }
INLINE mask as_mask(vi bits) { return bits; }
#endif

/* The product of the low 32 bits of each lane, which are signed. */
INLINE vi product(vi a, vi b)
{
#if WIDTH == 8
    return (vi)_mm512_mul_epi32((__m512i)a, (__m512i)b);
#elif WIDTH == 4
    return (vi)_mm256_mul_epi32((__m256i)a, (__m256i)b);
#else
    vi c;
    for (int j = 0; j < WIDTH; j++)
        c[j] = (int64_t)(int32_t)a[j] * (int32_t)b[j];
    return c;
#endif
}

INLINE int64_t total_i(vi v)
{
    uint64_t sum = 0;
    for (int j = 0; j < WIDTH; j++)
        sum += (uint64_t)v[j];
    return (int64_t)sum;
}

/* t = m 2^exponent with m between sqrt(1/2) and sqrt(2), for a normal number t > 0. */
INLINE vd mantissa(vd t, vd *exponent)
{
    vu bits = (vu)t - SQRT_HALF_BITS;
    /* Shifted as if it were not signed: vectors of 64 bits have no other shift before AVX-512. */
    vi e = (vi)((bits + ((uint64_t)1024 << 52)) >> 52) - 1024;
    *exponent = (vd)(e + 0x4338000000000000) - ROUND;
    return (vd)((bits & MANTISSA_BITS) + SQRT_HALF_BITS);
}

/* log(1 + x) for x >= -1/2. */
INLINE vd log1p_of(vd x)
{
    const vd one = all(1.0);
    vd exponent, t = one + x, m = mantissa(t, &exponent);
    mask near = equal(exponent, all(0.0)), below = less(x, one);
    vd lost = (choose(below, x, one) - (t - choose(below, one, x))) / t;
    vd s = choose(near, x, m - 1.0) / choose(near, 2.0 + x, m + 1.0);
    vd q = s * s, p = all(1.0 / 25);
    for (int k = 11; k >= 0; k--)
        p = p * q + 1.0 / (2 * k + 1);
    vd rest = (exponent * LN2_LOW + choose(near, all(0.0), lost)) + (2.0 * s) * p;
    return exponent * LN2_HIGH + rest;
}

/* As `mantissa`, of any number x > 0. */
INLINE vd mantissa_of_any(vd x, vd *exponent)
{
    mask subnormal = less(x, all(0x1p-1022));
    vd m = mantissa(choose(subnormal, x * 0x1p54, x), exponent);
    *exponent -= choose(subnormal, all(54.0), all(0.0));
    return m;
}

/* log(x / a) for any x, a > 0. Close to a, the difference is exact; elsewhere the quotient of the
 * mantissas is, to half a unit, and neither overflows. */
INLINE vd log_ratio_of(vd x, vd a)
{
    vd e_x, e_a, m = mantissa_of_any(x, &e_x) / mantissa_of_any(a, &e_a), difference = x - a;
    mask close = at_most(2.0 * magnitude(difference), a);
    vd e = choose(close, all(0.0), e_x - e_a);
    return e * LN2_HIGH + (e * LN2_LOW + log1p_of(choose(close, difference / a, m - 1.0)));
}

/* e^z = T e^r with T a power of two. */
INLINE vd reduce(vd z, vd *T)
{
    vd rounded = z * LOG2_E + ROUND, k = rounded - ROUND;
    *T = (vd)(((vi)rounded + 1023) << 52);
    return (z - k * LN2_HIGH) - k * LN2_LOW;
}

/* e^r = 1 + 2 r / (R - r) with R = r coth(r/2), for |r| <= ln(2)/2. */
INLINE vd exp_of(vd r)
{
    vd s = r * r, R = s * 0x1.63f285639f513p-25 - 0x1.bbd5323fac0f0p-20;
    R = R * s + 0x1.1566ab5c1bf72p-14;
    R = R * s - 0x1.6c16c16c0ac0cp-9;
    R = R * s + 0x1.5555555555553p-3;
    R = R * s + 2.0;
    return r / (R - r) * 2.0 + 1.0;
}

#endif
