/* A silo's exact sums, docs/protocol.md, sections 4.2 and 4.4: constant work for every row.
 *
 * A row is the L = log(1+|x|) of its value, with the sign of x; of a missing value it is 0, which
 * adds nothing to any sum. Every row takes the same operations, whatever its value: of both sides
 * the lane of a vector chooses its own by its sign. y and d are cut into digits of DIGIT bits, the
 * number of which follows from the encoding alone, and products of digits are summed in 64 bits.
 */
#include "kernel.h"
#include "vectors.h"

#include <math.h>

typedef __int128 wide;

/* What is common to all rows of a pair. */
struct plan {
    double u[2], v[2];
    double near[2];   /* the largest |u| L where y and d are summed as series */
    double decays[2]; /* -1 on a decaying side, else 1 */
    double coarse[2]; /* rounds a magnitude to the grid of a side */
    int rounds;       /* whether a side has a coarser grid than the other */
};

/* Vectors at a time: what they wait for, step by step, they wait for together. */
#if WIDTH == 8
#define ABREAST 4
#else
#define ABREAST 2
#endif
#define EACH _Pragma("GCC unroll 4") for (int k = 0; k < ABREAST; k++)

/* (e^r - 1 - r)/r^2 for |r| <= ln(2)/2. */
INLINE void phi2_of(const vd *r, vd *p)
{
    EACH p[k] = r[k] * (1.0 / 6227020800) + 1.0 / 479001600;
    EACH p[k] = p[k] * r[k] + 1.0 / 39916800;
    EACH p[k] = p[k] * r[k] + 1.0 / 3628800;
    EACH p[k] = p[k] * r[k] + 1.0 / 362880;
    EACH p[k] = p[k] * r[k] + 1.0 / 40320;
    EACH p[k] = p[k] * r[k] + 1.0 / 5040;
    EACH p[k] = p[k] * r[k] + 1.0 / 720;
    EACH p[k] = p[k] * r[k] + 1.0 / 120;
    EACH p[k] = p[k] * r[k] + 1.0 / 24;
    EACH p[k] = p[k] * r[k] + 1.0 / 6;
    EACH p[k] = p[k] * r[k] + 0.5;
}

/* y and d of a block, or their residuals, and on a decaying side which of them have constants.
 * What no side needs is left out: in closed form, or as a constant and a residual. */
INLINE void residuals(const int closed, const int decaying, const double *S, int n,
                      const struct plan *plan, double *y, double *d, int64_t *far)
{
    for (int i = 0; i < n; i += ABREAST * WIDTH) {
        vd s[ABREAST], z[ABREAST], T[ABREAST], r[ABREAST], b[ABREAST];
        mask negative[ABREAST];
        EACH {
            s[k] = load(S + i + k * WIDTH);
            negative[k] = less(s[k], all(0.0));
            z[k] = choose(negative[k], all(plan->u[1]), all(plan->u[0])) * magnitude(s[k]);
            T[k] = all(1.0);
        }
        EACH r[k] = closed || decaying ? reduce(z[k], &T[k]) : z[k];
        phi2_of(r, b);
        EACH {
            vd L = magnitude(s[k]), a = b[k] * r[k] + 1.0;
            vd r_y = a * L, r_d = ((a - b[k]) * L) * L;
            if (closed || decaying) {
                vd v = choose(negative[k], all(plan->v[1]), all(plan->v[0]));
                vd limit = choose(negative[k], all(plan->near[1]), all(plan->near[0]));
                mask near = at_most(magnitude(z[k]), limit);
                vd g_y = r_y, g_d = r_d;
                if (closed) {
                    vd E = (a * r[k]) * T[k] + (T[k] - 1.0);
                    g_y = E * v;
                    g_d = choose(equal(T[k], all(1.0)), r_d, ((E + 1.0) * L - g_y) * v);
                }
                if (decaying) {
                    vd side = choose(negative[k], all(plan->decays[1]), all(plan->decays[0]));
                    mask decays = less(side, all(0.0));
                    vd e_y = (exp_of(r[k]) * T[k]) * v, e_d = e_y * (L - v);
                    g_y = choose(decays, e_y, g_y);
                    g_d = choose(decays, e_d, g_d);
                    store_i(far + i + k * WIDTH, as_bits(decays) & ~as_bits(near));
                }
                r_y = choose(near, r_y, g_y);
                r_d = choose(near, r_d, g_d);
            }
            if (plan->rounds) {
                vd B = choose(negative[k], all(plan->coarse[1]), all(plan->coarse[0]));
                vd m_y = magnitude(r_y), m_d = magnitude(r_d);
                vi s_y = (vi)r_y & ~ABS_BITS, s_d = (vi)r_d & ~ABS_BITS;
                r_y = (vd)((vi)choose(less(m_y, B), (m_y + B) - B, m_y) | s_y);
                r_d = (vd)((vi)choose(less(m_d, B), (m_d + B) - B, m_d) | s_d);
            }
            store(y + i + k * WIDTH, (vd)((vi)r_y ^ ((vi)s[k] & ~ABS_BITS)));
            store(d + i + k * WIDTH, r_d);
        }
    }
}

/* Sums over a block: of the digits of y and d, the same where there are constants, and the
 * products y y and y d by the sum of the places of their digits. */
struct columns {
    wide y[MOST_DIGITS], d[MOST_DIGITS], far_y[MOST_DIGITS], far_d[MOST_DIGITS];
    wide yy[2 * MOST_DIGITS], yd[2 * MOST_DIGITS];
    int64_t far;
};

/* v cut into digits, the lowest first. Each comes with the bits of its unit: the low 32 of these
 * are 0, and of the low 52 only the highest is 1. */
INLINE void split(const int n, vd v, const double *units, vi *digits)
{
#pragma GCC unroll 8
    for (int a = n - 1; a >= 0; a--) {
        vd rounded = v + units[a];
        digits[a] = (vi)rounded;
        if (a)
            v -= rounded - units[a];
    }
}

#if defined(__AVX512IFMA__)

/* Digits of 51 bits and a sign are at most 2^50, and 2^51 with the bits of a unit: numbers without
 * a sign, whose products are summed in two halves of 52 bits each. */
#define DIGIT 51
#define DIGITS(bits) ((bits) / DIGIT + 1)
#define UNIT ((wide)1 << 51)

INLINE void add_product(vi *low, vi *high, vi a, vi b)
{
    *low = (vi)_mm512_madd52lo_epu64((__m512i)*low, (__m512i)a, (__m512i)b);
    *high = (vi)_mm512_madd52hi_epu64((__m512i)*high, (__m512i)a, (__m512i)b);
}

INLINE wide total_of(vi low, vi high)
{
    return (wide)(uint64_t)total_i(low) + ((wide)(uint64_t)total_i(high) << 52);
}

#else

/* Digits of 26 bits and a sign: products of the low 32 bits, where there is nothing of a unit. */
#define DIGIT 26
#define DIGITS(bits) (((bits) + DIGIT - 1) / DIGIT)
#define UNIT ((wide)0)

INLINE void add_product(vi *low, vi *high, vi a, vi b)
{
    (void)high;
    *low += product(a, b);
}

INLINE wide total_of(vi low, vi high)
{
    (void)high;
    return total_i(low);
}

#endif

/* What UNIT adds to the products of the digits of n rows that sum to a and b. */
INLINE wide of_units(int64_t a, int64_t b, int64_t n)
{
    return UNIT * ((wide)a + b) + UNIT * UNIT * n;
}

INLINE int64_t bits_of(double x) { int64_t bits; memcpy(&bits, &x, 8); return bits; }

/* The sum of count digits, from that of their bits. */
INLINE int64_t total_of_digits(vi sum, double unit, int64_t count)
{
    return (int64_t)((uint64_t)total_i(sum) - (uint64_t)count * (uint64_t)bits_of(unit));
}

INLINE void add_block(const int ny, const int nd, const int decays, int n, const double *y,
                      const double *d, const int64_t *far, const double *units,
                      struct columns *out)
{
    vi sy[8] = {0}, sd[8] = {0}, fy[8] = {0}, fd[8] = {0}, f = {0};
    vi square[8] = {0}, square_high[8] = {0}, cross[16] = {0}, cross_high[16] = {0};
    vi yd[16] = {0}, yd_high[16] = {0};
    for (int i = 0; i < n; i += WIDTH) {
        vi p[8], q[8];
        split(ny, load(y + i), units, p);
        split(nd, load(d + i), units, q);
        vi here = decays ? load_i(far + i) : (vi){0};
        f += here;
#pragma GCC unroll 8
        for (int a = 0; a < ny; a++) {
            sy[a] += p[a];
            if (decays)
                fy[a] += p[a] & here;
        }
#pragma GCC unroll 8
        for (int a = 0; a < nd; a++) {
            sd[a] += q[a];
            if (decays)
                fd[a] += q[a] & here;
        }
#pragma GCC unroll 8
        for (int a = 0; a < ny; a++) {
#pragma GCC unroll 8
            for (int b = 0; b < nd; b++)
                add_product(&yd[a + b], &yd_high[a + b], p[a], q[b]);
            add_product(&square[a], &square_high[a], p[a], p[a]);
#pragma GCC unroll 8
            for (int b = 0; b < ny; b++)
                if (b > a)
                    add_product(&cross[a + b], &cross_high[a + b], p[a], p[b]);
        }
    }
    int64_t count = -total_i(f), of_y[8], of_d[8];
    out->far += count;
    for (int a = 0; a < ny; a++) {
        out->y[a] += of_y[a] = total_of_digits(sy[a], units[a], n);
        out->far_y[a] += total_of_digits(fy[a], units[a], count);
    }
    for (int a = 0; a < nd; a++) {
        out->d[a] += of_d[a] = total_of_digits(sd[a], units[a], n);
        out->far_d[a] += total_of_digits(fd[a], units[a], count);
    }
    for (int a = 0; a < ny; a++) {
        out->yy[2 * a] += total_of(square[a], square_high[a]) - of_units(of_y[a], of_y[a], n);
        for (int b = a + 1; b < ny; b++)
            out->yy[a + b] -= 2 * of_units(of_y[a], of_y[b], n);
        for (int b = 0; b < nd; b++)
            out->yd[a + b] -= of_units(of_y[a], of_d[b], n);
    }
    for (int c = 1; c < 2 * ny - 2; c++)
        out->yy[c] += 2 * total_of(cross[c], cross_high[c]);
    for (int c = 0; c < ny + nd - 1; c++)
        out->yd[c] += total_of(yd[c], yd_high[c]);
}

/* The same for any number of digits. 32 products of 2^52 each, summed over TOGETHER. */
static __attribute__((noinline)) void add_many(int ny, int nd, int n, const double *y,
                                               const double *d, const int64_t *far,
                                               const double *units, struct columns *out)
{
    enum { TOGETHER = PADDING, VECTORS = TOGETHER / WIDTH };
    for (int first = 0; first < n; first += TOGETHER) {
        vi digits[2][MOST_DIGITS][VECTORS], here[VECTORS], f = {0};
        int64_t sums[2][MOST_DIGITS];
        for (int i = 0; i < VECTORS; i++) {
            for (int which = 0; which < 2; which++) {
                vd v = load((which ? d : y) + first + i * WIDTH);
                for (int a = (which ? nd : ny) - 1; a >= 0; a--) {
                    vd rounded = v + units[a];
                    digits[which][a][i] = (vi)rounded;
                    v -= rounded - units[a];
                }
            }
            here[i] = load_i(far + first + i * WIDTH);
            f += here[i];
        }
        int64_t count = -total_i(f);
        out->far += count;
        for (int which = 0; which < 2; which++) {
            for (int a = 0; a < (which ? nd : ny); a++) {
                vi all_rows = {0}, some = {0};
                for (int i = 0; i < VECTORS; i++) {
                    all_rows += digits[which][a][i];
                    some += digits[which][a][i] & here[i];
                }
                sums[which][a] = total_of_digits(all_rows, units[a], TOGETHER);
                (which ? out->d : out->y)[a] += sums[which][a];
                (which ? out->far_d : out->far_y)[a] += total_of_digits(some, units[a], count);
            }
        }
        for (int which = 0; which < 2; which++)
            for (int a = 0; a < ny; a++)
                for (int b = which ? 0 : a; b < (which ? nd : ny); b++) {
                    vi low = {0}, high = {0};
                    for (int i = 0; i < VECTORS; i++)
                        add_product(&low, &high, digits[0][a][i], digits[which][b][i]);
                    wide own = total_of(low, high) - of_units(sums[0][a], sums[which][b], TOGETHER);
                    (which ? out->yd : out->yy)[a + b] += own * (1 + (!which && a != b));
                }
    }
}

static void add_digits(int ny, int nd, int decays, int n, const double *y, const double *d,
                       const int64_t *far, const double *units, struct columns *out)
{
#define CASE(NY, ND)                                                                               \
    if (ny == NY && nd == ND) {                                                                    \
        if (decays)                                                                                \
            add_block(NY, ND, 1, n, y, d, far, units, out);                                        \
        else                                                                                       \
            add_block(NY, ND, 0, n, y, d, far, units, out);                                        \
        return;                                                                                    \
    }
    CASE(2, 2) CASE(2, 3) CASE(3, 3) CASE(3, 4) CASE(4, 4)
#if DIGIT == 26
    CASE(4, 5) CASE(5, 5) CASE(5, 6) CASE(6, 6) CASE(6, 7) CASE(7, 7) CASE(7, 8) CASE(8, 8)
#endif
#undef CASE
    add_many(ny, nd, n, y, d, far, units, out);
}

/* Add value 2^shift to words, which hold an integer modulo a power of two. */
static void add_at(uint64_t *words, int64_t limbs, wide value, int64_t shift)
{
    int64_t word = shift >> 6, bits = shift & 63;
    uint64_t low = (uint64_t)value, high = (uint64_t)(value >> 64);
    uint64_t sign = (uint64_t)(value >> 127) , part[3] = {low, high, sign};
    if (bits) {
        part[2] = sign << bits | high >> (64 - bits);
        part[1] = high << bits | low >> (64 - bits);
        part[0] = low << bits;
    }
    unsigned __int128 carry = 0;
    for (int64_t i = word; i < limbs; i++) {
        carry += (unsigned __int128)words[i] + (i - word < 3 ? part[i - word] : sign);
        words[i] = (uint64_t)carry;
        carry >>= 64;
    }
}

/* rint(c 2^grid) = M 2^position, where M has at most 53 bits. */
static int64_t constant(double c, int64_t grid, int64_t *position)
{
    int exponent;
    frexp(c, &exponent);
    int64_t lowest = exponent - 53 > -grid ? exponent - 53 : -grid;
    *position = lowest + grid;
    return (int64_t)rint(ldexp(c, (int)-lowest));
}

/* What the constants of a decaying side add to the sums over residuals. */
static void add_constants(double u, int64_t sign, int64_t grid, const struct columns *at, int ny,
                          int nd, uint64_t (*total)[MOST_LIMBS], int64_t limbs)
{
    int64_t y_at, d_at, n = at->far;
    double inverse = 1.0 / fabs(u);
    wide cy = constant(inverse, grid, &y_at), cd = constant(inverse * inverse, grid, &d_at);
    wide cy_low = cy & 0x7FFFFFF, cy_high = cy >> 27;
    add_at(total[0], limbs, sign * cy * n, y_at);
    add_at(total[1], limbs, cd * n, d_at);
    add_at(total[2], limbs, cy_low * n * cy, 2 * y_at);
    add_at(total[2], limbs, cy_high * n * cy, 2 * y_at + 27);
    add_at(total[3], limbs, sign * cy_low * n * cd, y_at + d_at);
    add_at(total[3], limbs, sign * cy_high * n * cd, y_at + d_at + 27);
    for (int a = 0; a < ny; a++) {
        add_at(total[2], limbs, 2 * sign * cy * at->far_y[a], y_at + DIGIT * a);
        add_at(total[3], limbs, cd * at->far_y[a], d_at + DIGIT * a);
    }
    for (int a = 0; a < nd; a++)
        add_at(total[3], limbs, sign * cy * at->far_d[a], y_at + DIGIT * a);
}

/* What is common to all rows of a pair; return whether a side takes the closed form. */
static int plan_of(const struct pair *pair, struct plan *plan)
{
    int closed = 0;
    for (int side = 0; side < 2; side++) {
        int kind = (int)pair->kind[side];
        plan->u[side] = pair->u[side];
        plan->v[side] = kind == NEAR ? 0.0 : 1.0 / pair->u[side];
        plan->near[side] = kind == NEAR ? 1.0 : kind == GENERAL ? -1.0 : 0.125;
        plan->decays[side] = kind == DECAYING ? -1.0 : 1.0;
        plan->coarse[side] = ldexp(1.0, (int)(52 + pair->skipped[side] - pair->grid));
        closed |= kind == GENERAL;
    }
    plan->rounds = pair->skipped[0] || pair->skipped[1];
    return closed;
}

static void residuals_of(int closed, int decaying, const double *S, int n, const struct plan *plan,
                         double *y, double *d, int64_t *far)
{
    if (closed && decaying)
        residuals(1, 1, S, n, plan, y, d, far);
    else if (closed)
        residuals(1, 0, S, n, plan, y, d, far);
    else if (decaying)
        residuals(0, 1, S, n, plan, y, d, far);
    else
        residuals(0, 0, S, n, plan, y, d, far);
}

static void sum_pair(const double *values, int64_t first, int64_t last, const struct pair *pair,
                     uint64_t (*total)[MOST_LIMBS], int64_t limbs)
{
    struct plan plan;
    int closed = plan_of(pair, &plan), decaying = pair->decaying != 0;
    int ny = DIGITS((int)pair->bits_y), nd = DIGITS((int)pair->bits_d);
    ny = ny < 2 ? 2 : ny;
    nd = nd < 2 ? 2 : nd;
    double units[MOST_DIGITS];
    for (int a = 0; a < ny || a < nd; a++)
        units[a] = ldexp(ROUND, (int)(DIGIT * a - pair->grid));
    struct columns at;
    memset(&at, 0, sizeof at);
    double y[BLOCK], d[BLOCK];
    int64_t far[BLOCK];
    memset(far, 0, sizeof far);
    for (int64_t i = first; i < last; i += BLOCK) {
        int n = last - i < BLOCK ? (int)(last - i) : BLOCK;
        residuals_of(closed, decaying, values + i, n, &plan, y, d, far);
        add_digits(ny, nd, decaying, n, y, d, far, units, &at);
    }
    memset(total, 0, 4 * sizeof *total);
    for (int a = 0; a < ny; a++)
        add_at(total[0], limbs, at.y[a], DIGIT * a);
    for (int a = 0; a < nd; a++)
        add_at(total[1], limbs, at.d[a], DIGIT * a);
    for (int a = 0; a < 2 * ny - 1; a++)
        add_at(total[2], limbs, at.yy[a], DIGIT * a);
    for (int a = 0; a < ny + nd - 1; a++)
        add_at(total[3], limbs, at.yd[a], DIGIT * a);
    if (pair->decaying)
        add_constants(pair->u[pair->decaying < 0], pair->decaying, pair->grid, &at, ny, nd, total,
                      limbs);
}

/* S_y, S_d, S_yy and S_yd of some pairs over some rows, in result[4][limbs][count]. */
static void sums(const double *values, int64_t room, int64_t first_row, int64_t last_row,
                 const struct pair *pairs, int64_t count, int64_t first, int64_t last,
                 int64_t limbs, uint64_t *result)
{
    uint64_t total[4][MOST_LIMBS];
    for (int64_t k = first; k < last; k++) {
        sum_pair(values + pairs[k].feature * room, first_row, last_row, pairs + k, total, limbs);
        for (int which = 0; which < 4; which++)
            for (int64_t limb = 0; limb < limbs; limb++)
                result[(which * limbs + limb) * count + k] = total[which][limb];
    }
}

/* How many values of some rows, from values[rows][room], are at most a point. */
static void ranks(const double *values, int64_t room, const int64_t *rows, const double *points,
                  int64_t first, int64_t last, int64_t *result)
{
    for (int64_t k = first; k < last; k++) {
        const double *from = values + rows[k] * room;
        vd point = all(points[k]);
        vi beyond = {0};
        for (int64_t i = 0; i < room; i += WIDTH)
            beyond -= as_bits(less(point, load(from + i)));
        result[k] = room - total_i(beyond);
    }
}

/* L of the rows of a feature, with the sign of x, and the two digits of S_phi; return how many values
 * are outside their bounds. L is log(1+|x|), or log(x/least) of values that have a least one. */
INLINE int64_t arrange_one(const int ratio, const double *from, int64_t rows, double lower,
                           double upper, double least, double phi_scale, double *to,
                           int64_t *count, int64_t *phi)
{
    const double unit = ROUND * 0x1p26;
    vi present = {0}, beyond = {0}, low = {0}, high = {0};
    int64_t padded = 0;
    for (int64_t i = 0; i < rows; i += WIDTH) {
        vd v = all(0.0);
        if (i + WIDTH <= rows)
            v = load(from + i);
        else
            for (int k = 0; k < WIDTH; k++)
                v[k] = i + k < rows ? from[i + k] : __builtin_nan("");
        padded += WIDTH;
        vi is = as_bits(equal(v, v));
        present -= is;
        beyond -= as_bits(less(v, all(lower))) | as_bits(less(all(upper), v));
        vd x = (vd)((vi)magnitude(v) & is);
        vd L = (vd)((vi)(ratio ? log_ratio_of(x, all(least)) : log1p_of(x)) & is);
        L = (vd)((vi)L | ((vi)v & is & ~ABS_BITS));
        store(to + i, L);
        vd scaled = L * phi_scale, top = scaled + unit, rest = scaled - (top - unit);
        high += (vi)top;
        low += (vi)(rest + ROUND);
    }
    *count = total_i(present);
    phi[0] = (int64_t)((uint64_t)total_i(low) - (uint64_t)padded * (uint64_t)bits_of(ROUND));
    phi[1] = (int64_t)((uint64_t)total_i(high) - (uint64_t)padded * (uint64_t)bits_of(unit));
    return total_i(beyond);
}

/* All rows of some features, from x[feature][row]. Where least is 0, there is none. Rows in room
 * beyond those of x are zeros already. */
static int64_t arrange(const double *x, int64_t features, int64_t rows, const double *lower,
                       const double *upper, const double *least, const double *phi_scale,
                       double *values, int64_t room, int64_t *count, int64_t *phi)
{
    int64_t outside = 0;
    for (int64_t j = 0; j < features; j++) {
        const double *from = x + j * rows;
        double *to = values + j * room;
        int64_t *digits = phi + PHI_DIGITS * j;
        if (least[j] > 0)
            outside += arrange_one(1, from, rows, lower[j], upper[j], least[j], phi_scale[j], to,
                                   count + j, digits);
        else
            outside += arrange_one(0, from, rows, lower[j], upper[j], 0.0, phi_scale[j], to,
                                   count + j, digits);
    }
    return outside;
}
