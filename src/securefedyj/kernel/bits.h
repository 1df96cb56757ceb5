/* Bits of many values side by side, for engines/additive.py. Words are little-endian. */
#ifndef SECUREFEDYJ_BITS_H
#define SECUREFEDYJ_BITS_H

#include <string.h>

#include "kernel.h"

/* Transpose a matrix of 64 x 64 bits, a row in a word (Warren, Hacker's Delight, section 7-3). */
static void transpose_64(uint64_t *rows)
{
    const uint64_t masks[] = {0x00000000FFFFFFFF, 0x0000FFFF0000FFFF, 0x00FF00FF00FF00FF,
                              0x0F0F0F0F0F0F0F0F, 0x3333333333333333, 0x5555555555555555};
    for (int stage = 0; stage < 6; stage++) {
        int by = 32 >> stage;
        for (int first = 0; first < 64; first += 2 * by)
            for (int k = first; k < first + by; k++) {
                uint64_t swapped = (rows[k] >> by ^ rows[k + by]) & masks[stage];
                rows[k + by] ^= swapped;
                rows[k] ^= swapped << by;
            }
    }
}

/* Bit j of all values [limbs][size] in row j of planes [64 limbs][(size + 7) / 8]. */
static void bit_planes(const uint64_t *values, int64_t limbs, int64_t size, uint8_t *planes)
{
    int64_t octets = (size + 7) / 8;
    for (int64_t limb = 0; limb < limbs; limb++)
        for (int64_t first = 0; first < size; first += 64) {
            uint64_t rows[64] = {0};
            int64_t some = size - first < 64 ? size - first : 64;
            memcpy(rows, values + limb * size + first, (size_t)some * 8);
            transpose_64(rows);
            uint8_t *to = planes + 64 * limb * octets + first / 8;
            if (some == 64)
                for (int j = 0; j < 64; j++)
                    memcpy(to + j * octets, rows + j, 8);
            else
                for (int j = 0; j < 64; j++)
                    memcpy(to + j * octets, rows + j, (size_t)(some + 7) / 8);
        }
}

#endif
