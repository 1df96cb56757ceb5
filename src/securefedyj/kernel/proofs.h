/* Proofs of gates, for engines/replicated/columns.py, which says what is computed.
 *
 * Bits come as octets [R / 8][columns]: bit t of an octet in row g is that of row 8 g + t. Columns
 * are a multiple of 64. What depends on a bit is done by masks: no branch and no address does.
 */
#ifndef SECUREFEDYJ_PROOFS_H
#define SECUREFEDYJ_PROOFS_H

#include <string.h>

#include "bits.h"
#include "field.h"
#include "vectors.h"

/* Rows that are multiplied at once: see rows.py. */
#define GROUP 4

/* A row of a page, in vectors that the processor has. */
#define PARTS (PAGE_WORDS / WIDTH)
#define EACH_PART(p) _Pragma("GCC unroll 4") for (int p = 0; p < PARTS; p++)
typedef struct {
    vu part[PARTS];
} words;

INLINE void add(words *a, const words *b) { EACH_PART(p) a->part[p] ^= b->part[p]; }

/* Neighbouring octets, each in the low bits of a word; other octets may be above them. */
INLINE vu octets(const uint8_t *from)
{
    uint64_t some = 0;
    memcpy(&some, from, WIDTH);
#if WIDTH == 8
    return (some - (vu){0}) >> (vu){0, 8, 16, 24, 32, 40, 48, 56};
#elif WIDTH == 4
    return (some - (vu){0}) >> (vu){0, 8, 16, 24};
#else
    return (vu){some, some >> 8};
#endif
}

/* All ones in the words where a bit of the octet is 1. */
#define MASKS(some, bit) (-((some) >> (bit) & 1))

/* The sum over the rows of coefficient times bit, for the columns from first to last. */
static void evaluated(const uint8_t *bits, int64_t columns, int64_t rows,
                      const uint64_t *coefficients, int64_t first, int64_t last, uint64_t *result)
{
    for (int64_t c = first; c < last; c += WIDTH) {
        vu sum = {0};
        for (int64_t g = 0; g < rows / 8; g++) {
            vu some = octets(bits + g * columns + c);
            for (int t = 0; t < 8; t++)
                sum ^= MASKS(some, t) & coefficients[8 * g + t];
        }
        memcpy(result + c - first, &sum, sizeof sum);
    }
}

/* Swap bits, or bytes of neighbouring words, that a mask tells apart. */
INLINE void swap_within(words *a, int by, uint64_t mask)
{
    EACH_PART(p) {
        vu swapped = (a->part[p] ^ a->part[p] >> by) & mask;
        a->part[p] ^= swapped ^ swapped << by;
    }
}

INLINE void swap_between(words *a, words *b, int by, uint64_t mask)
{
    EACH_PART(p) {
        vu swapped = (a->part[p] >> by ^ b->part[p]) & mask;
        b->part[p] ^= swapped;
        a->part[p] ^= swapped << by;
    }
}

/* The bits of a page by rows, a bit for each column in the words of a row; zeros beyond `some`.
 *
 * Matrices of 8 x 8 bits are transposed, and then those of 8 x 8 bytes (Warren, Hacker's Delight,
 * section 7-3), of all words of a page at once. */
static void by_rows(const uint8_t *bits, int64_t columns, int64_t rows, int64_t some, words *page)
{
    for (int64_t g = 0; g < rows / 8; g++) {
        uint64_t loaded[8][PAGE_WORDS] = {{0}};
        words *to = page + 8 * g;
        for (int64_t w = 0; w < some; w++)
            for (int k = 0; k < 8; k++)
                memcpy(&loaded[k][w], bits + g * columns + 64 * w + 8 * k, 8);
        memcpy(to, loaded, sizeof loaded);
        for (int k = 0; k < 8; k++) {
            swap_within(&to[k], 7, 0x00AA00AA00AA00AA);
            swap_within(&to[k], 14, 0x0000CCCC0000CCCC);
            swap_within(&to[k], 28, 0x00000000F0F0F0F0);
        }
        for (int k = 0; k < 8; k += 2)
            swap_between(&to[k], &to[k + 1], 8, 0x00FF00FF00FF00FF);
        for (int k = 0; k < 8; k++)
            if (!(k & 2))
                swap_between(&to[k], &to[k + 2], 16, 0x0000FFFF0000FFFF);
        for (int k = 0; k < 4; k++)
            swap_between(&to[k], &to[k + 4], 32, 0x00000000FFFFFFFF);
    }
}

/* From 1 and u to 1 and v = u + 1 for each generator of the groups of rows, or back again. */
static void change_basis(words *values, int64_t groups)
{
    for (int64_t by = 1; by < groups; by *= 2)
        for (int64_t group = 0; group < groups; group++)
            if (group & by)
                for (int row = 0; row < GROUP; row++)
                    add(&values[(group ^ by) * GROUP + row], &values[group * GROUP + row]);
}

/* Add partner times the sum over all other rows of bit / (row - other) to the eight lanes. */
static void other_rows(const words *bits, const words *partner, int64_t rows,
                       const uint8_t *chosen, words lanes[8][MOST_ROWS])
{
    int64_t groups = rows / GROUP;
    words changed[MOST_ROWS], sums[MOST_ROWS / GROUP][1 << GROUP], result[MOST_ROWS];
    memcpy(changed, bits, (size_t)rows * sizeof *bits);
    change_basis(changed, groups);
    for (int64_t group = 0; group < groups; group++) {
        memset(sums[group], 0, sizeof *sums[group]);
        for (int k = 0; k < GROUP; k++)
            for (int known = 0; known < 1 << k; known++) {
                sums[group][(1 << k) + known] = sums[group][known];
                add(&sums[group][(1 << k) + known], &changed[group * GROUP + k]);
            }
    }
    for (int bit = 0; bit < 8; bit++) {
        for (int64_t to = 0; to < groups; to++)
            for (int row = 0; row < GROUP; row++) {
                words sum;
                memset(&sum, 0, sizeof sum);
                for (int64_t group = to;; group = (group - 1) & to) { /* all subsets of `to` */
                    add(&sum, &sums[to ^ group][chosen[(group * 8 + bit) * GROUP + row]]);
                    if (!group)
                        break;
                }
                result[to * GROUP + row] = sum;
            }
        change_basis(result, groups);
        for (int64_t row = 0; row < rows; row++)
            EACH_PART(p) lanes[bit][row].part[p] ^= partner[row].part[p] & result[row].part[p];
    }
}

static void add_weighted(struct wide_element *sum, const words *value, const uint64_t *weights)
{
    uint64_t of_words[PAGE_WORDS];
    memcpy(of_words, value, sizeof of_words);
    for (int w = 0; w < PAGE_WORDS; w++) {
        struct wide_element product = carryless(of_words[w], weights[w]);
        sum->low ^= product.low;
        sum->high ^= product.high;
    }
}

/* The sums over the pages from first to last, in the rows: result [GATE_SUMS][rows].
 *
 * bits are a, b, c and d, and masks what belongs to each. weights are those of all words, filled up
 * with zeros to whole pages; chosen [R / 4][8][4] says which sums of four rows make which group.
 */
static void gate_sums(const uint8_t *const bits[4], const uint64_t *const masks[4], int64_t columns,
                      int64_t rows, const uint64_t *weights, const uint8_t *chosen, int64_t first,
                      int64_t last, uint64_t *result)
{
    struct wide_element sums[GATE_SUMS - 1][MOST_ROWS] = {{{0, 0}}};
    vu masked[MOST_ROWS] = {{0}};
    words page[4][MOST_ROWS], lanes[8][MOST_ROWS];
    for (int64_t p = first; p < last; p++) {
        const uint64_t *own = weights + p * PAGE_WORDS;
        int64_t begin = p * PAGE_WORDS * 64, end = begin + PAGE_WORDS * 64;
        if (end > columns)
            end = columns;
        memset(lanes, 0, sizeof lanes);
        for (int k = 0; k < 4; k++)
            by_rows(bits[k] + begin, columns, rows, (end - begin) / 64, page[k]);
        for (int k = 0; k < 4; k++) {
            other_rows(page[k], page[k ^ 1], rows, chosen, lanes);
            uint64_t weighted[PAGE_WORDS * 64];
            for (int64_t c = 0; c < end - begin; c++)
                weighted[c] = times_power(times(masks[k][begin + c], own[c / 64]), c % 64);
            for (int64_t g = 0; g < rows / 8; g++) {
                vu some[8];
                memcpy(some, masked + 8 * g, sizeof some);
                for (int64_t c = begin; c < end; c += WIDTH) {
                    vu value, own_bits = octets(bits[k] + g * columns + c);
                    memcpy(&value, weighted + c - begin, sizeof value);
                    for (int t = 0; t < 8; t++)
                        some[t] ^= MASKS(own_bits, t) & value;
                }
                memcpy(masked + 8 * g, some, sizeof some);
            }
        }
        for (int64_t row = 0; row < rows; row++) {
            words same;
            EACH_PART(p) same.part[p] = (page[0][row].part[p] & page[1][row].part[p]) ^
                                   (page[2][row].part[p] & page[3][row].part[p]);
            add_weighted(&sums[0][row], &same, own);
            for (int bit = 0; bit < 8; bit++)
                add_weighted(&sums[1 + bit][row], &lanes[bit][row], own);
        }
    }
    for (int64_t row = 0; row < rows; row++) {
        for (int lane = 0; lane < GATE_SUMS - 1; lane++)
            result[lane * rows + row] = reduced(sums[lane][row]);
        uint64_t sum = 0;
        for (int lane = 0; lane < WIDTH; lane++)
            sum ^= masked[row][lane];
        result[(GATE_SUMS - 1) * rows + row] = sum;
    }
}

#endif
