/* The exact sums of rows that occur as often as secret weights say, numerics/weighed.py.
 *
 * A weight has WEIGHT_DIGITS digits of WEIGHT_BITS bits; the highest one is signed. What is public
 * decides every branch. The rounded y and d of a point are m 2^shift with m below 2^56; products of
 * digits with m, and with the two digits of m m, are added up until another point has other shifts, or
 * signs. Below BLOCK points they stay below 2^127, for weights below 2^165.
 */
#include "kernel.h"

#define WEIGHT_BITS 56
/* Shifts are multiples of this, so that they change rarely. */
#define COARSE 4
#define COEFFICIENTS 6 /* m_y, m_d, and both digits of m_y m_y and of m_y m_d */

/* What points have in common whose products are added up as they are: their shifts, whether y and d
 * are negative, and whether they have constants. */
#define STATE(shift_y, shift_d, minus_y, minus_d, far) \
    ((uint32_t)((shift_y) << 16 | (shift_d) << 3 | (minus_y) << 2 | (minus_d) << 1 | (far)))

struct collected {
    uint64_t sums[4][MOST_LIMBS], far[MOST_LIMBS], far_y[MOST_LIMBS], far_d[MOST_LIMBS];
};

/* to += or -= a 2^shift modulo 2^(64 limbs). */
static void add_words(uint64_t *to, int64_t limbs, const uint64_t *a, int64_t words, int64_t shift,
                      int negative)
{
    int64_t first = shift >> 6, bits = shift & 63;
    uint64_t sign = -(a[words - 1] >> 63), below = 0;
    unsigned __int128 carry = negative;
    for (int64_t i = first; i < limbs; i++) {
        uint64_t word = i - first < words ? a[i - first] : sign;
        uint64_t shifted = bits ? word << bits | below >> (64 - bits) : word;
        below = word;
        carry += (unsigned __int128)to[i] + (negative ? ~shifted : shifted);
        to[i] = (uint64_t)carry;
        carry >>= 64;
    }
}

/* to += or -= a m 2^shift, where a has as many limbs as to. */
static void add_multiple(uint64_t *to, int64_t limbs, const uint64_t *a, uint64_t m, int64_t shift,
                         int negative)
{
    uint64_t product[MOST_LIMBS];
    unsigned __int128 carry = 0;
    for (int64_t i = 0; i < limbs; i++) {
        carry += (unsigned __int128)a[i] * m;
        product[i] = (uint64_t)carry;
        carry >>= 64;
    }
    add_words(to, limbs, product, limbs, shift, negative);
}

static void add_wide(uint64_t *to, int64_t limbs, wide a, int64_t shift, int negative)
{
    uint64_t words[2] = {(uint64_t)a, (uint64_t)(a >> 64)};
    add_words(to, limbs, words, 2, shift, negative);
}

/* |rint(v 2^grid)| = m 2^shift, with the scale 2^grid. */
INLINE uint64_t magnitude_of(double v, double scale, int *shift)
{
    uint64_t bits;
    double rounded = rint(fabs(v) * scale);
    memcpy(&bits, &rounded, 8);
    int exponent = (int)(bits >> 52) - 1075;
    uint64_t m = (bits & 0xFFFFFFFFFFFFF) | (uint64_t)1 << 52;
    if (exponent < 0) { /* less than 2^53 */
        *shift = 0;
        return exponent < -52 ? 0 : m >> -exponent;
    }
    *shift = exponent / COARSE * COARSE;
    return m << exponent % COARSE;
}

/* Add to the sums what points with the same shifts and signs give, for one of their weights. */
static void gather(const int64_t *weights, int64_t stride, int first, int last,
                   int64_t (*c)[BLOCK], uint32_t state, struct collected *to, int64_t limbs)
{
    int shift_y = state >> 16, shift_d = state >> 3 & 0x1FFF;
    int minus_y = state >> 2 & 1, minus_d = state >> 1 & 1, minus_yd = minus_y ^ minus_d;
    for (int digit = 0; digit < WEIGHT_DIGITS; digit++, weights += stride) {
        wide y = 0, d = 0, yy = 0, yy_high = 0, yd = 0, yd_high = 0;
        for (int r = first; r < last; r++) {
            wide w = weights[r];
            y += w * c[0][r];
            d += w * c[1][r];
            yy += w * c[2][r];
            yy_high += w * c[3][r];
            yd += w * c[4][r];
            yd_high += w * c[5][r];
        }
        int at = WEIGHT_BITS * digit, next = at + WEIGHT_BITS;
        add_wide(to->sums[0], limbs, y, at + shift_y, minus_y);
        add_wide(to->sums[1], limbs, d, at + shift_d, minus_d);
        add_wide(to->sums[2], limbs, yy, at + 2 * shift_y, 0);
        add_wide(to->sums[2], limbs, yy_high, next + 2 * shift_y, 0);
        add_wide(to->sums[3], limbs, yd, at + shift_y + shift_d, minus_yd);
        add_wide(to->sums[3], limbs, yd_high, next + shift_y + shift_d, minus_yd);
        if (state & 1) {
            wide w = 0;
            for (int r = first; r < last; r++)
                w += weights[r];
            add_wide(to->far, limbs, w, at, 0);
            add_wide(to->far_y, limbs, y, at + shift_y, minus_y);
            add_wide(to->far_d, limbs, d, at + shift_d, minus_d);
        }
    }
}

/* What the constants of a decaying side add to the sums over residuals. */
static void collect_constants(double u, int64_t sign, int64_t grid, struct collected *at,
                              int64_t limbs)
{
    int64_t y_at, d_at;
    double inverse = 1.0 / fabs(u);
    uint64_t cy = (uint64_t)constant(inverse, grid, &y_at), multiple[MOST_LIMBS] = {0};
    uint64_t cd = (uint64_t)constant(inverse * inverse, grid, &d_at);
    int minus = sign < 0;
    add_multiple(multiple, limbs, at->far, cy, 0, 0);
    add_words(at->sums[0], limbs, multiple, limbs, y_at, minus);
    add_multiple(at->sums[1], limbs, at->far, cd, d_at, 0);
    add_multiple(at->sums[2], limbs, multiple, cy, 2 * y_at, 0);
    add_multiple(at->sums[3], limbs, multiple, cd, y_at + d_at, minus);
    add_multiple(at->sums[2], limbs, at->far_y, cy, y_at + 1, minus);
    add_multiple(at->sums[3], limbs, at->far_y, cd, d_at, 0);
    add_multiple(at->sums[3], limbs, at->far_d, cy, y_at, minus);
}

/* The sums of a pair for each of several weights. */
static void weigh_pair(const double *values, int64_t count, const int64_t *weights, int64_t several,
                       int64_t stride, const struct pair *pair, int64_t limbs,
                       struct collected *totals)
{
    struct plan plan;
    int closed = plan_of(pair, &plan), decaying = pair->decaying != 0;
    double y[BLOCK], d[BLOCK], scale = ldexp(1.0, (int)pair->grid);
    int64_t far[BLOCK], c[COEFFICIENTS][BLOCK], digit = ((int64_t)1 << WEIGHT_BITS) - 1;
    memset(far, 0, sizeof far);
    memset(totals, 0, several * sizeof *totals);
    for (int64_t i = 0; i < count; i += BLOCK) {
        int n = count - i < BLOCK ? (int)(count - i) : BLOCK, first = 0;
        uint32_t now = 0, next = 0;
        residuals_of(closed, decaying, values + i, n, &plan, y, d, far);
        for (int r = 0; r <= n; r++) {
            if (r < n) {
                int shift_y, shift_d;
                uint64_t m_y = magnitude_of(y[r], scale, &shift_y);
                uint64_t m_d = magnitude_of(d[r], scale, &shift_d);
                next = STATE(shift_y, shift_d, y[r] < 0, d[r] < 0, far[r] != 0);
                unsigned __int128 yy = (unsigned __int128)m_y * m_y;
                unsigned __int128 yd = (unsigned __int128)m_y * m_d;
                c[0][r] = (int64_t)m_y;
                c[1][r] = (int64_t)m_d;
                c[2][r] = (int64_t)yy & digit;
                c[3][r] = (int64_t)(yy >> WEIGHT_BITS);
                c[4][r] = (int64_t)yd & digit;
                c[5][r] = (int64_t)(yd >> WEIGHT_BITS);
            }
            if (r == n || (r && now != next)) {
                for (int64_t k = 0; k < several; k++)
                    gather(weights + k * WEIGHT_DIGITS * stride + i, stride, first, r, c, now,
                           totals + k, limbs);
                first = r;
            }
            now = next;
        }
    }
    for (int64_t k = 0; k < several && pair->decaying; k++)
        collect_constants(pair->u[pair->decaying < 0], pair->decaying, pair->grid, totals + k, limbs);
}

/* S_y, S_d, S_yy and S_yd of some pairs of a feature, whose values begin at start[feature], and each
 * of several weights, in result[4][limbs][several][pairs]. */
static void weighed(const double *values, const int64_t *start, const int64_t *weights,
                    int64_t several, int64_t stride, const struct pair *pairs, int64_t count,
                    int64_t first, int64_t last, int64_t limbs, uint64_t *result)
{
    struct collected totals[MOST_WEIGHTS];
    for (int64_t p = first; p < last; p++) {
        int64_t from = start[pairs[p].feature], to = start[pairs[p].feature + 1];
        weigh_pair(values + from, to - from, weights + from, several, stride, pairs + p, limbs, totals);
        for (int which = 0; which < 4; which++)
            for (int64_t limb = 0; limb < limbs; limb++)
                for (int64_t k = 0; k < several; k++)
                    result[((which * limbs + limb) * several + k) * count + p] =
                        totals[k].sums[which][limb];
    }
}
