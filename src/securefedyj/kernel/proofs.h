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

/* Rows that are multiplied at once: see rows.py. */
#define GROUP 4

typedef uint64_t words __attribute__((vector_size(8 * PAGE_WORDS)));
typedef uint8_t octets __attribute__((vector_size(PAGE_WORDS)));

/* All ones in the words where a bit of the octet is 1. */
#define MASKS(some, bit) (-((some) >> (bit) & 1))

/* The sum over the rows of coefficient times bit, for the columns from first to last. */
static void evaluated(const uint8_t *bits, int64_t columns, int64_t rows,
                      const uint64_t *coefficients, int64_t first, int64_t last, uint64_t *result)
{
    for (int64_t c = first; c < last; c += PAGE_WORDS) {
        words sum = {0};
        for (int64_t g = 0; g < rows / 8; g++) {
            octets narrow;
            memcpy(&narrow, bits + g * columns + c, sizeof narrow);
            words some = __builtin_convertvector(narrow, words);
            for (int t = 0; t < 8; t++)
                sum ^= MASKS(some, t) & coefficients[8 * g + t];
        }
        memcpy(result + c - first, &sum, sizeof sum);
    }
}

/* Swap bits, or bytes of neighbouring words, that a mask tells apart. */
#define SWAP_WITHIN(a, by, mask) do { \
        words swapped = ((a) ^ (a) >> (by)) & (mask); \
        (a) ^= swapped ^ swapped << (by); \
    } while (0)
#define SWAP_BETWEEN(a, b, by, mask) do { \
        words swapped = ((a) >> (by) ^ (b)) & (mask); \
        (b) ^= swapped; \
        (a) ^= swapped << (by); \
    } while (0)

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
            SWAP_WITHIN(to[k], 7, 0x00AA00AA00AA00AA);
            SWAP_WITHIN(to[k], 14, 0x0000CCCC0000CCCC);
            SWAP_WITHIN(to[k], 28, 0x00000000F0F0F0F0);
        }
        for (int k = 0; k < 8; k += 2)
            SWAP_BETWEEN(to[k], to[k + 1], 8, 0x00FF00FF00FF00FF);
        for (int k = 0; k < 8; k++)
            if (!(k & 2))
                SWAP_BETWEEN(to[k], to[k + 2], 16, 0x0000FFFF0000FFFF);
        for (int k = 0; k < 4; k++)
            SWAP_BETWEEN(to[k], to[k + 4], 32, 0x00000000FFFFFFFF);
    }
}

/* From 1 and u to 1 and v = u + 1 for each generator of the groups of rows, or back again. */
static void change_basis(words *values, int64_t groups)
{
    for (int64_t by = 1; by < groups; by *= 2)
        for (int64_t group = 0; group < groups; group++)
            if (group & by)
                for (int row = 0; row < GROUP; row++)
                    values[(group ^ by) * GROUP + row] ^= values[group * GROUP + row];
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
        sums[group][0] = (words){0};
        for (int k = 0; k < GROUP; k++)
            for (int known = 0; known < 1 << k; known++)
                sums[group][(1 << k) + known] = sums[group][known] ^ changed[group * GROUP + k];
    }
    for (int bit = 0; bit < 8; bit++) {
        for (int64_t to = 0; to < groups; to++)
            for (int row = 0; row < GROUP; row++) {
                words sum = {0};
                for (int64_t group = to;; group = (group - 1) & to) { /* all subsets of `to` */
                    sum ^= sums[to ^ group][chosen[(group * 8 + bit) * GROUP + row]];
                    if (!group)
                        break;
                }
                result[to * GROUP + row] = sum;
            }
        change_basis(result, groups);
        for (int64_t row = 0; row < rows; row++)
            lanes[bit][row] ^= partner[row] & result[row];
    }
}

static void add_weighted(struct wide_element *sum, const words *value, const uint64_t *weights)
{
    for (int w = 0; w < PAGE_WORDS; w++) {
        struct wide_element product = carryless((*value)[w], weights[w]);
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
    words masked[MOST_ROWS] = {{0}};
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
                words some[8];
                memcpy(some, masked + 8 * g, sizeof some);
                for (int64_t c = begin; c < end; c += PAGE_WORDS) {
                    octets narrow;
                    words value;
                    memcpy(&narrow, bits[k] + g * columns + c, sizeof narrow);
                    memcpy(&value, weighted + c - begin, sizeof value);
                    words wide = __builtin_convertvector(narrow, words);
                    for (int t = 0; t < 8; t++)
                        some[t] ^= MASKS(wide, t) & value;
                }
                memcpy(masked + 8 * g, some, sizeof some);
            }
        }
        for (int64_t row = 0; row < rows; row++) {
            words same = (page[0][row] & page[1][row]) ^ (page[2][row] & page[3][row]);
            add_weighted(&sums[0][row], &same, own);
            for (int bit = 0; bit < 8; bit++)
                add_weighted(&sums[1 + bit][row], &lanes[bit][row], own);
        }
    }
    for (int64_t row = 0; row < rows; row++) {
        for (int lane = 0; lane < GATE_SUMS - 1; lane++)
            result[lane * rows + row] = reduced(sums[lane][row]);
        uint64_t sum = 0;
        for (int w = 0; w < PAGE_WORDS; w++)
            sum ^= masked[row][w];
        result[(GATE_SUMS - 1) * rows + row] = sum;
    }
}

#endif
