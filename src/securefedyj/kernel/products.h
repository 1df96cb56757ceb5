/* Sums and products of wide integers for numerics/wide.py. No branch depends on a value. */
#include "kernel.h"

/* The sum of a_0 b_0 + a_1 b_1 + ... of arrays [limbs][terms][size]; b may have fewer limbs. Some
 * values at a time: their limbs are next to each other, and their carries do not wait for others. */
static void products(const uint64_t *a, const uint64_t *b, int64_t limbs, int64_t limbs_b,
                     int64_t terms, int64_t size, int64_t first, int64_t last, uint64_t *result)
{
    enum { AT_ONCE = 16 };
    for (int64_t begin = first; begin < last; begin += AT_ONCE) {
        int64_t n = last - begin < AT_ONCE ? last - begin : AT_ONCE;
        for (int64_t i = 0; i < limbs; i++)
            for (int64_t k = 0; k < n; k++)
                result[i * size + begin + k] = 0;
        for (int64_t term = 0; term < terms; term++)
            for (int64_t j = 0; j < limbs_b && j < limbs; j++) {
                const uint64_t *factor = b + (j * terms + term) * size + begin;
                uint64_t carry[AT_ONCE] = {0};
                for (int64_t i = 0; i < limbs - j; i++) {
                    const uint64_t *x = a + (i * terms + term) * size + begin;
                    uint64_t *to = result + (i + j) * size + begin;
                    for (int64_t k = 0; k < n; k++) {
                        /* (2^64 - 1)^2 + 2 (2^64 - 1) is below 2^128. */
                        unsigned __int128 sum = (unsigned __int128)x[k] * factor[k];
                        sum = sum + carry[k] + to[k];
                        to[k] = (uint64_t)sum;
                        carry[k] = (uint64_t)(sum >> 64);
                    }
                }
            }
    }
}

/* a + b or a - b, of arrays [outer][limbs][size]. */
static void combine(const uint64_t *a, const uint64_t *b, int64_t outer, int64_t limbs,
                    int64_t size, int64_t subtract, uint64_t *result)
{
    uint64_t flip = subtract ? ~(uint64_t)0 : 0; /* a - b = ~(~a + b) */
    for (int64_t o = 0; o < outer; o++)
        for (int64_t first = 0; first < size; first += BLOCK) {
            uint64_t carry[BLOCK] = {0};
            int64_t some = size - first < BLOCK ? size - first : BLOCK;
            for (int64_t limb = 0; limb < limbs; limb++) {
                int64_t at = (o * limbs + limb) * size + first;
                for (int64_t k = 0; k < some; k++) {
                    uint64_t sum = (a[at + k] ^ flip) + b[at + k], total = sum + carry[k];
                    carry[k] = (sum < b[at + k]) | (total < sum);
                    result[at + k] = total ^ flip;
                }
            }
        }
}
