/* The extension module securefedyj._kernel: buffers in, loops without the GIL.
 *
 * Every function takes the position of a level in `levels` first. Callers are numerics alone, which
 * give arrays in one piece and of the right type; their sizes are checked here.
 */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>
#include <string.h>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include "kernel.h"

#if defined(__x86_64__)
extern const struct kernel kernel_baseline, kernel_v3, kernel_v4, kernel_ifma;
static const struct kernel *const LEVELS[] = {&kernel_baseline, &kernel_v3, &kernel_v4,
                                              &kernel_ifma};
#else
extern const struct kernel kernel_baseline;
static const struct kernel *const LEVELS[] = {&kernel_baseline};
#endif

static int usable_levels(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    int v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
             __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
             __builtin_cpu_supports("pclmul");
    int v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
             __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
             __builtin_cpu_supports("avx512vl");
    int ifma = v4 && __builtin_cpu_supports("avx512ifma");
    return 1 + v3 + v4 + ifma;
#else
    return 1;
#endif
}

#define MOST_ARGUMENTS 20

/* The arguments of a call: integers, numbers and buffers. */
struct arguments {
    int count, buffers;
    const struct kernel *kernel;
    int64_t integer[MOST_ARGUMENTS];
    double number[MOST_ARGUMENTS];
    void *data[MOST_ARGUMENTS];
    Py_buffer held[MOST_ARGUMENTS];
    int64_t size[MOST_ARGUMENTS];
};

static void release(struct arguments *at)
{
    while (at->buffers)
        PyBuffer_Release(&at->held[--at->buffers]);
}

/* Read the arguments as a format says: i an integer, d a number, r a buffer, w one to write to; b
 * and o are such buffers of bytes, whose sizes are in bytes. */
static int taken(PyObject *given, const char *format, struct arguments *at)
{
    at->buffers = 0;
    if (PyTuple_Size(given) != (Py_ssize_t)strlen(format) + 1) {
        PyErr_SetString(PyExc_TypeError, "wrong number of arguments");
        return 0;
    }
    long level = PyLong_AsLong(PyTuple_GetItem(given, 0));
    if (PyErr_Occurred())
        return 0;
    if (level < 0 || level >= usable_levels()) {
        PyErr_SetString(PyExc_ValueError, "no such level on this processor");
        return 0;
    }
    at->kernel = LEVELS[level];
    for (int i = 0; format[i]; i++) {
        PyObject *one = PyTuple_GetItem(given, i + 1);
        if (format[i] == 'i')
            at->integer[i] = PyLong_AsLongLong(one);
        else if (format[i] == 'd')
            at->number[i] = PyFloat_AsDouble(one);
        else {
            int bytes = format[i] == 'b' || format[i] == 'o';
            int written = format[i] == 'w' || format[i] == 'o';
            int flags = PyBUF_C_CONTIGUOUS | (written ? PyBUF_WRITABLE : 0);
            if (!PyObject_GetBuffer(one, &at->held[at->buffers], flags)) {
                at->data[i] = at->held[at->buffers].buf;
                at->size[i] = at->held[at->buffers].len / (bytes ? 1 : 8);
                at->buffers++;
                if (!bytes && (uintptr_t)at->data[i] % 8)
                    PyErr_SetString(PyExc_ValueError, "an array is not aligned");
            }
        }
        if (PyErr_Occurred()) {
            release(at);
            return 0;
        }
    }
    return 1;
}

/* Release the buffers and raise an error, unless all sizes are right. */
static int fitting(struct arguments *at, int right)
{
    if (!right) {
        release(at);
        PyErr_SetString(PyExc_ValueError, "an array has the wrong size");
    }
    return right;
}

/* arrange(level, x[features][rows], features, rows, lower, upper, least, phi_scale, values, room,
 * count, phi) -> how many values are outside their bounds */
static PyObject *call_arrange(PyObject *self, PyObject *given)
{
    (void)self;
    struct arguments at;
    int64_t outside;
    if (!taken(given, "riirrrrwiww", &at))
        return NULL;
    int64_t features = at.integer[1], rows = at.integer[2], room = at.integer[8];
    if (!fitting(&at, features >= 0 && rows >= 0 && room % PADDING == 0 && room >= rows &&
                          at.size[0] == features * rows && at.size[3] == features &&
                          at.size[4] == features && at.size[5] == features &&
                          at.size[6] == features && at.size[7] == features * room &&
                          at.size[9] == features && at.size[10] == features * PHI_DIGITS))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    outside = at.kernel->arrange(at.data[0], features, rows, at.data[3], at.data[4], at.data[5],
                                 at.data[6], at.data[7], room, at.data[9], at.data[10]);
    Py_END_ALLOW_THREADS
    release(&at);
    return PyLong_FromLongLong(outside);
}

static int right_pairs(const struct pair *pair, int64_t count, int64_t features)
{
    for (int64_t k = 0; k < count; k++)
        if (pair[k].feature < 0 || pair[k].feature >= features || pair[k].bits_y < 1 ||
            pair[k].bits_d < 1 || pair[k].bits_y > MOST_BITS || pair[k].bits_d > MOST_BITS)
            return 0;
    return 1;
}

/* sums(level, values[features][room], room, first_row, last_row, pairs, first, last, limbs,
 * result[4][limbs][pairs]) */
static PyObject *call_sums(PyObject *self, PyObject *given)
{
    (void)self;
    struct arguments at;
    if (!taken(given, "riiiriiiw", &at))
        return NULL;
    int64_t room = at.integer[1], first_row = at.integer[2], last_row = at.integer[3];
    int64_t count = at.size[4] * 8 / (int64_t)sizeof(struct pair), limbs = at.integer[7];
    if (!fitting(&at, room > 0 && room % PADDING == 0 && first_row % PADDING == 0 &&
                          first_row >= 0 && last_row % PADDING == 0 && last_row <= room &&
                          last_row - first_row <= MOST_ROWS_SUMMED && at.integer[5] >= 0 &&
                          at.integer[6] <= count && limbs > 0 && limbs <= MOST_LIMBS &&
                          at.size[8] == 4 * limbs * count &&
                          right_pairs(at.data[4], count, at.size[0] / room)))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    at.kernel->sums(at.data[0], room, first_row, last_row, at.data[4], count, at.integer[5],
                    at.integer[6], limbs, at.data[8]);
    Py_END_ALLOW_THREADS
    release(&at);
    Py_RETURN_NONE;
}

/* weighed(level, values[places], start[features + 1], weights[several][WEIGHT_DIGITS][places],
 * several, pairs, first, last, limbs, result[4][limbs][several][pairs]) */
static PyObject *call_weighed(PyObject *self, PyObject *given)
{
    (void)self;
    struct arguments at;
    if (!taken(given, "rrririiiw", &at))
        return NULL;
    const int64_t *start = at.data[1];
    int64_t places = at.size[0], features = at.size[1] - 1, several = at.integer[3];
    int64_t count = at.size[4] * 8 / (int64_t)sizeof(struct pair), limbs = at.integer[7];
    int right = features >= 0 && start[0] >= 0 && start[features] <= places;
    for (int64_t j = 0; right && j < features; j++)
        right = start[j] <= start[j + 1] && (start[j + 1] - start[j]) % PADDING == 0;
    if (!fitting(&at, right && several > 0 && several <= MOST_WEIGHTS &&
                          at.size[2] == several * WEIGHT_DIGITS * places && at.integer[5] >= 0 &&
                          at.integer[6] <= count && limbs > 0 && limbs <= MOST_LIMBS &&
                          at.size[8] == 4 * limbs * several * count &&
                          right_pairs(at.data[4], count, features)))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    at.kernel->weighed(at.data[0], start, at.data[2], several, places, at.data[4], count,
                       at.integer[5], at.integer[6], limbs, at.data[8]);
    Py_END_ALLOW_THREADS
    release(&at);
    Py_RETURN_NONE;
}

/* ranks(level, values[rows][room], room, row[pairs], points[pairs], first, last, result[pairs]) */
static PyObject *call_ranks(PyObject *self, PyObject *given)
{
    (void)self;
    struct arguments at;
    if (!taken(given, "rirriiw", &at))
        return NULL;
    const int64_t *row = at.data[2];
    int64_t room = at.integer[1], pairs = at.size[2], first = at.integer[4], last = at.integer[5];
    int right = room > 0 && room % PADDING == 0 && at.size[3] == pairs && at.size[6] == pairs &&
                0 <= first && last <= pairs;
    for (int64_t k = 0; right && k < pairs; k++)
        right = 0 <= row[k] && row[k] < at.size[0] / room;
    if (!fitting(&at, right))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    at.kernel->ranks(at.data[0], room, row, at.data[3], first, last, at.data[6]);
    Py_END_ALLOW_THREADS
    release(&at);
    Py_RETURN_NONE;
}

/* products(level, a[limbs][terms][size], b[limbs_b][terms][size], limbs, limbs_b, terms, size,
 * first, last, result[limbs][size]) */
static PyObject *call_products(PyObject *self, PyObject *given)
{
    (void)self;
    struct arguments at;
    if (!taken(given, "rriiiiiiw", &at))
        return NULL;
    int64_t limbs = at.integer[2], limbs_b = at.integer[3], terms = at.integer[4];
    int64_t size = at.integer[5], first = at.integer[6], last = at.integer[7];
    if (!fitting(&at, limbs >= 0 && limbs_b >= 0 && terms >= 0 && size >= 0 && first >= 0 &&
                          last <= size && at.size[0] == limbs * terms * size &&
                          at.size[1] == limbs_b * terms * size && at.size[8] == limbs * size))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    at.kernel->products(at.data[0], at.data[1], limbs, limbs_b, terms, size, first, last,
                        at.data[8]);
    Py_END_ALLOW_THREADS
    release(&at);
    Py_RETURN_NONE;
}

/* survey(level, values[features][rows], features, rows, counts[features][2], lowest, highest) */
static PyObject *call_survey(PyObject *self, PyObject *given)
{
    (void)self;
    struct arguments at;
    if (!taken(given, "riiwww", &at))
        return NULL;
    int64_t features = at.integer[1], rows = at.integer[2];
    if (!fitting(&at, features >= 0 && rows >= 0 && at.size[0] == features * rows &&
                          at.size[3] == 2 * features && at.size[4] == 2 * features &&
                          at.size[5] == 2 * features))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    at.kernel->survey(at.data[0], features, rows, rows, at.data[3], at.data[4], at.data[5]);
    Py_END_ALLOW_THREADS
    release(&at);
    Py_RETURN_NONE;
}

/* distances(level, chunk[features][rows], rows, yardsticks[sides], D[sides][pieces][width], pieces,
 * width, length[sides][pieces], first, last) for the sides and pieces from first to last */
static PyObject *call_distances(PyObject *self, PyObject *given)
{
    (void)self;
    struct arguments at;
    if (!taken(given, "rirwiiwii", &at))
        return NULL;
    const struct yardstick *by = at.data[2];
    int64_t rows = at.integer[1], sides = at.size[2] * 8 / (int64_t)sizeof *by;
    int64_t pieces = at.integer[4], width = at.integer[5];
    int64_t first = at.integer[7], last = at.integer[8];
    int right = rows >= 0 && pieces >= 0 && width >= 0 && at.size[3] == sides * pieces * width &&
                at.size[6] == sides * pieces && width % 8 == 0 && pieces * width >= rows &&
                first >= 0 && last <= sides * pieces;
    for (int64_t k = 0; right && k < sides; k++)
        right = by[k].position >= 0 && (by[k].position + 1) * rows <= at.size[0];
    if (!fitting(&at, right))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    for (int64_t task = first; task < last; task++) {
        int64_t k = task / pieces, begin = task % pieces * width;
        int64_t some = rows - begin < width ? rows - begin : width;
        at.kernel->distances((const double *)at.data[0] + by[k].position * rows + begin,
                             some > 0 ? some : 0, by + k, (double *)at.data[3] + task * width,
                             (int64_t *)at.data[6] + task);
    }
    Py_END_ALLOW_THREADS
    release(&at);
    Py_RETURN_NONE;
}

/* row_sums(level, D[sides][pieces][width], pieces, width, length[sides][pieces], where[n],
 * exponents[4][n], out[n][pieces][ROW_SUMS], first, last); exponents are kappa, shift, one, small */
static PyObject *call_row_sums(PyObject *self, PyObject *given)
{
    (void)self;
    struct arguments at;
    if (!taken(given, "riirrrwii", &at))
        return NULL;
    int64_t pieces = at.integer[1], width = at.integer[2], n = at.size[4];
    int64_t first = at.integer[7], last = at.integer[8];
    const int64_t *where = at.data[4], *length = at.data[3];
    int right = pieces >= 0 && width >= 0 && at.size[0] == at.size[3] * width &&
                at.size[5] == 4 * n && at.size[6] == n * pieces * ROW_SUMS && first >= 0 &&
                last <= n * pieces;
    for (int64_t k = 0; right && k < n; k++)
        right = where[k] >= 0 && (where[k] + 1) * pieces <= at.size[3];
    for (int64_t k = 0; right && k < at.size[3]; k++)
        right = length[k] >= 0 && length[k] <= width && length[k] % 8 == 0;
    if (!fitting(&at, right))
        return NULL;
    const double *by = at.data[5];
    Py_BEGIN_ALLOW_THREADS
    for (int64_t task = first; task < last; task++) {
        int64_t k = task / pieces, piece = where[k] * pieces + task % pieces;
        at.kernel->row_sums((const double *)at.data[0] + piece * width, length[piece], by[k],
                            by[n + k], by[2 * n + k], by[3 * n + k] != 0.0,
                            (double *)at.data[6] + task * ROW_SUMS);
    }
    Py_END_ALLOW_THREADS
    release(&at);
    Py_RETURN_NONE;
}

/* added_pieces(level, sums[n][pieces][ROW_SUMS], pieces, total[n][ROW_SUMS], lost[n][ROW_SUMS]): add
 * up the sums of all pieces in order, and what rounding takes of each addition (Knuth) */
static PyObject *call_added_pieces(PyObject *self, PyObject *given)
{
    (void)self;
    struct arguments at;
    if (!taken(given, "riww", &at))
        return NULL;
    int64_t pieces = at.integer[1], size = at.size[2];
    if (!fitting(&at, pieces >= 0 && size % ROW_SUMS == 0 && at.size[3] == size &&
                          at.size[0] == size * pieces))
        return NULL;
    double *total = at.data[2], *lost = at.data[3];
    Py_BEGIN_ALLOW_THREADS
    for (int64_t row = 0; row < size; row += ROW_SUMS) {
        const double *sums = (const double *)at.data[0] + row * pieces;
        for (int64_t piece = 0; piece < pieces; piece++)
            for (int k = 0; k < ROW_SUMS; k++) {
                double a = total[row + k], b = sums[piece * ROW_SUMS + k];
                double sum = a + b, back = sum - a;
                lost[row + k] += (a - (sum - back)) + (b - back);
                total[row + k] = sum;
            }
    }
    Py_END_ALLOW_THREADS
    release(&at);
    Py_RETURN_NONE;
}

/* transpose(level, x, stride, first_column, columns, rows, out[columns][room], room) of rows that begin
 * stride numbers after each other */
static PyObject *call_transpose(PyObject *self, PyObject *given)
{
    (void)self;
    struct arguments at;
    if (!taken(given, "riiiiwi", &at))
        return NULL;
    int64_t stride = at.integer[1], first = at.integer[2], columns = at.integer[3];
    int64_t rows = at.integer[4], room = at.integer[6];
    if (!fitting(&at, stride > 0 && first >= 0 && columns >= 0 && first + columns <= stride &&
                          rows >= 0 && room >= rows && (columns - 1) * room + rows <= at.size[5] &&
                          (!rows || (rows - 1) * stride + first + columns <= at.size[0])))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    at.kernel->transpose((const double *)at.data[0] + first, rows, stride, 1, columns, room,
                         at.data[5]);
    Py_END_ALLOW_THREADS
    release(&at);
    Py_RETURN_NONE;
}

#include "engines.h"

/* levels() -> the names of those that this processor can run, the slowest first */
static PyObject *call_levels(PyObject *self, PyObject *given)
{
    (void)self;
    (void)given;
    int count = usable_levels();
    PyObject *names = PyTuple_New(count);
    for (int i = 0; names && i < count; i++) {
        PyObject *name = PyUnicode_FromString(LEVELS[i]->name);
        if (!name || PyTuple_SetItem(names, i, name) < 0) {
            Py_DECREF(names);
            return NULL;
        }
    }
    return names;
}

/* source() -> the digest of the files that this was compiled from; see setup.py */
static PyObject *call_source(PyObject *self, PyObject *given)
{
    (void)self;
    (void)given;
    return PyUnicode_FromString(SOURCE);
}

static PyMethodDef METHODS[] = {
    {"levels", call_levels, METH_NOARGS, NULL},
    {"source", call_source, METH_NOARGS, NULL},
    {"arrange", call_arrange, METH_VARARGS, NULL},
    {"sums", call_sums, METH_VARARGS, NULL},
    {"weighed", call_weighed, METH_VARARGS, NULL},
    {"ranks", call_ranks, METH_VARARGS, NULL},
    {"products", call_products, METH_VARARGS, NULL},
    {"survey", call_survey, METH_VARARGS, NULL},
    {"distances", call_distances, METH_VARARGS, NULL},
    {"row_sums", call_row_sums, METH_VARARGS, NULL},
    {"added_pieces", call_added_pieces, METH_VARARGS, NULL},
    {"transpose", call_transpose, METH_VARARGS, NULL},
    ENGINE_METHODS
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot SLOTS[] = {{0, NULL}};

static struct PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT, "securefedyj._kernel", NULL, 0, METHODS, SLOTS, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__kernel(void) { return PyModuleDef_Init(&MODULE); }
