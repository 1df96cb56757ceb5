/* The exact sums of rows that occur as often as secret weights say, numerics/weighed.py.
 *
 * A weight is a signed integer of WEIGHT_LIMBS words. What is public decides every branch: the
 * rounded y and d of a point are m 2^shift with m below 2^60, and products w m, w m^2 are added up as
 * they are until another point has other shifts, or signs.
 */
#include "kernel.h"

#define ONCE (WEIGHT_LIMBS + 1)  /* words of sums of w m */
#define TWICE (WEIGHT_LIMBS + 2) /* and of w m m */
/* Shifts are multiples of this, so that they change rarely. */
#define COARSE 8

/* What points have in common whose products are added up as they are. */
struct state {
    int shift_y, shift_d, minus_y, minus_d, far;
};

/* What such points sum to, and what all do. */
struct gathered {
    uint64_t w[WEIGHT_LIMBS], y[ONCE], d[ONCE], yy[TWICE], yd[TWICE];
};
struct collected {
    uint64_t sums[4][MOST_LIMBS], far[MOST_LIMBS], far_y[MOST_LIMBS], far_d[MOST_LIMBS];
};

/* to += a */
INLINE void added(const int words, uint64_t *to, const uint64_t *a)
{
    unsigned __int128 sum = 0;
#pragma GCC unroll 8
    for (int i = 0; i < words; i++) {
        sum += (unsigned __int128)to[i] + a[i];
        to[i] = (uint64_t)sum;
        sum >>= 64;
    }
}

/* to += a b, where a is signed and has one word less than to. */
INLINE void add_scaled(const int words, uint64_t *to, const uint64_t *a, uint64_t b)
{
    uint64_t carry = 0, product[TWICE];
#pragma GCC unroll 8
    for (int i = 0; i < words - 1; i++) {
        unsigned __int128 p = (unsigned __int128)a[i] * b + carry;
        product[i] = (uint64_t)p;
        carry = (uint64_t)(p >> 64);
    }
    /* A negative a is 2^(64 words) less than these bits. */
    product[words - 1] = carry - (b & -(a[words - 2] >> 63));
    added(words, to, product);
}

/* to += or -= a 2^shift modulo 2^(64 limbs). */
static void add_words(uint64_t *to, int64_t limbs, const uint64_t *a, int words, int64_t shift,
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
    add_words(to, limbs, product, (int)limbs, shift, negative);
}

/* |rint(v 2^grid)| = m 2^shift with a coarse shift. */
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

/* Add what was gathered to the sums. */
static void collect(const struct gathered *from, const struct state *by, struct collected *to,
                    int64_t limbs)
{
    add_words(to->sums[0], limbs, from->y, ONCE, by->shift_y, by->minus_y);
    add_words(to->sums[1], limbs, from->d, ONCE, by->shift_d, by->minus_d);
    add_words(to->sums[2], limbs, from->yy, TWICE, 2 * by->shift_y, 0);
    add_words(to->sums[3], limbs, from->yd, TWICE, by->shift_y + by->shift_d,
              by->minus_y != by->minus_d);
    if (by->far) {
        add_words(to->far, limbs, from->w, WEIGHT_LIMBS, 0, 0);
        add_words(to->far_y, limbs, from->y, ONCE, by->shift_y, by->minus_y);
        add_words(to->far_d, limbs, from->d, ONCE, by->shift_d, by->minus_d);
    }
}

/* What the constants of a decaying side add to the sums over residuals. */
static void collect_constants(double u, int64_t sign, int64_t grid, struct collected *at,
                              int64_t limbs)
{
    int64_t y_at, d_at;
    double inverse = 1.0 / fabs(u);
    uint64_t cy = (uint64_t)constant(inverse, grid, &y_at), twice[MOST_LIMBS] = {0};
    uint64_t cd = (uint64_t)constant(inverse * inverse, grid, &d_at);
    int minus = sign < 0;
    add_multiple(twice, limbs, at->far, cy, 0, 0);
    add_words(at->sums[0], limbs, twice, (int)limbs, y_at, minus);
    add_multiple(at->sums[1], limbs, at->far, cd, d_at, 0);
    add_multiple(at->sums[2], limbs, twice, cy, 2 * y_at, 0);
    add_multiple(at->sums[3], limbs, twice, cd, y_at + d_at, minus);
    add_multiple(at->sums[2], limbs, at->far_y, cy, y_at + 1, minus);
    add_multiple(at->sums[3], limbs, at->far_y, cd, d_at, 0);
    add_multiple(at->sums[3], limbs, at->far_d, cy, y_at, minus);
}

/* Products of the weights of some points with m_y and m_d of each. */
INLINE void gather(const uint64_t *weights, int64_t stride, int n, const uint64_t *m_y,
                   const uint64_t *m_d, int far, struct gathered *to)
{
    struct gathered at;
    memset(&at, 0, sizeof at);
    for (int r = 0; r < n; r++) {
        uint64_t w[WEIGHT_LIMBS], z[ONCE] = {0};
#pragma GCC unroll 8
        for (int a = 0; a < WEIGHT_LIMBS; a++)
            w[a] = weights[a * stride + r];
        add_scaled(ONCE, z, w, m_y[r]);
        add_scaled(ONCE, at.d, w, m_d[r]);
        add_scaled(TWICE, at.yy, z, m_y[r]);
        add_scaled(TWICE, at.yd, z, m_d[r]);
        added(ONCE, at.y, z);
        if (far)
            added(WEIGHT_LIMBS, at.w, w);
    }
    *to = at;
}

/* The sums of a pair for each of several weights. */
static void weigh_pair(const double *values, int64_t count, const uint64_t *weights, int64_t several,
                       int64_t stride, const struct pair *pair, int64_t limbs,
                       struct collected *totals)
{
    struct plan plan;
    int closed = plan_of(pair, &plan), decaying = pair->decaying != 0;
    double y[BLOCK], d[BLOCK], scale = ldexp(1.0, (int)pair->grid);
    int64_t far[BLOCK];
    uint64_t m_y[BLOCK], m_d[BLOCK];
    memset(far, 0, sizeof far);
    memset(totals, 0, several * sizeof *totals);
    for (int64_t i = 0; i < count; i += BLOCK) {
        int n = count - i < BLOCK ? (int)(count - i) : BLOCK, first = 0;
        struct state now = {0}, next;
        residuals_of(closed, decaying, values + i, n, &plan, y, d, far);
        for (int r = 0; r <= n; r++) {
            if (r < n) {
                next = (struct state){0, 0, y[r] < 0, d[r] < 0, far[r] != 0};
                m_y[r] = magnitude_of(y[r], scale, &next.shift_y);
                m_d[r] = magnitude_of(d[r], scale, &next.shift_d);
            }
            if (r == n || (r && memcmp(&now, &next, sizeof now))) {
                for (int64_t k = 0; k < several; k++) {
                    struct gathered some;
                    gather(weights + k * WEIGHT_LIMBS * stride + i + first, stride, r - first,
                           m_y + first, m_d + first, now.far, &some);
                    collect(&some, &now, totals + k, limbs);
                }
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
static void weighed(const double *values, const int64_t *start, const uint64_t *weights,
                    int64_t several, int64_t stride, const struct pair *pairs, int64_t count,
                    int64_t first, int64_t last, int64_t limbs, uint64_t *result)
{
    struct collected totals[MOST_WEIGHTS];
    for (int64_t p = first; p < last; p++) {
        int64_t from = start[pairs[p].feature];
        weigh_pair(values + from, start[pairs[p].feature + 1] - from, weights + from, several, stride,
                   pairs + p, limbs, totals);
        for (int which = 0; which < 4; which++)
            for (int64_t limb = 0; limb < limbs; limb++)
                for (int64_t k = 0; k < several; k++)
                    result[((which * limbs + limb) * several + k) * count + p] =
                        totals[k].sums[which][limb];
    }
}
