/* Calls of the extension module that engines/ make: part of module.c. */

/* combine(level, a[outer][limbs][size], b, outer, limbs, size, subtract, result): a + b or a - b */
static PyObject *call_combine(PyObject *self, PyObject *given)
{
    (void)self;
    struct arguments at;
    if (!taken(given, "rriiiiw", &at))
        return NULL;
    int64_t outer = at.integer[2], limbs = at.integer[3], size = at.integer[4];
    int64_t all = outer * limbs * size;
    if (!fitting(&at, outer >= 0 && limbs >= 0 && size >= 0 && at.size[0] == all &&
                          at.size[1] == all && at.size[6] == all))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    at.kernel->combine(at.data[0], at.data[1], outer, limbs, size, at.integer[5], at.data[6]);
    Py_END_ALLOW_THREADS
    release(&at);
    Py_RETURN_NONE;
}

/* bit_planes(level, values[limbs][size], limbs, size, planes[64 limbs][(size + 7) / 8]) */
static PyObject *call_bit_planes(PyObject *self, PyObject *given)
{
    (void)self;
    struct arguments at;
    if (!taken(given, "riio", &at))
        return NULL;
    int64_t limbs = at.integer[1], size = at.integer[2];
    if (!fitting(&at, limbs >= 0 && size >= 0 && at.size[0] == limbs * size &&
                          at.size[3] == 64 * limbs * ((size + 7) / 8)))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    at.kernel->bit_planes(at.data[0], limbs, size, at.data[3]);
    Py_END_ALLOW_THREADS
    release(&at);
    Py_RETURN_NONE;
}

/* field_multiply(level, a[size], b[size], result[size]) */
static PyObject *call_field_multiply(PyObject *self, PyObject *given)
{
    (void)self;
    struct arguments at;
    if (!taken(given, "rrw", &at))
        return NULL;
    if (!fitting(&at, at.size[0] == at.size[2] && at.size[1] == at.size[2]))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    at.kernel->field_multiply(at.data[0], at.data[1], at.size[2], at.data[2]);
    Py_END_ALLOW_THREADS
    release(&at);
    Py_RETURN_NONE;
}

/* field_weighted(level, values[64 words], weights[words]) -> the sum, an element */
static PyObject *call_field_weighted(PyObject *self, PyObject *given)
{
    (void)self;
    struct arguments at;
    uint64_t result;
    if (!taken(given, "rr", &at))
        return NULL;
    if (!fitting(&at, at.size[0] == 64 * at.size[1]))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    result = at.kernel->field_weighted(at.data[0], at.data[1], at.size[1]);
    Py_END_ALLOW_THREADS
    release(&at);
    return PyLong_FromUnsignedLongLong(result);
}

static int right_layout(int64_t rows, int64_t columns)
{
    return (rows == 8 || rows == 16 || rows == 32 || rows == 64 || rows == MOST_ROWS) &&
           columns >= 0 && columns % 64 == 0;
}

/* evaluated(level, bits[rows / 8][columns], columns, coefficients[rows], first, last,
 * result[last - first]), first and last multiples of 64 */
static PyObject *call_evaluated(PyObject *self, PyObject *given)
{
    (void)self;
    struct arguments at;
    if (!taken(given, "biriiw", &at))
        return NULL;
    int64_t columns = at.integer[1], rows = at.size[2];
    int64_t first = at.integer[3], last = at.integer[4];
    if (!fitting(&at, right_layout(rows, columns) && first >= 0 && first % 64 == 0 &&
                          first <= last && last <= columns && last % 64 == 0 &&
                          at.size[0] == rows / 8 * columns && at.size[5] == last - first))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    at.kernel->evaluated(at.data[0], columns, rows, at.data[2], first, last, at.data[5]);
    Py_END_ALLOW_THREADS
    release(&at);
    Py_RETURN_NONE;
}

/* gate_sums(level, a, b, c, d: bits[rows / 8][columns], r', r, s', s: masks[columns], columns,
 * rows, weights[8 pages], chosen[rows / 4][8][4], first, last, result[10][rows]) for pages from
 * first to last */
static PyObject *call_gate_sums(PyObject *self, PyObject *given)
{
    (void)self;
    struct arguments at;
    if (!taken(given, "bbbbrrrriirbiiw", &at))
        return NULL;
    int64_t columns = at.integer[8], rows = at.integer[9];
    int64_t first = at.integer[12], last = at.integer[13], pages = at.size[10] / PAGE_WORDS;
    int right = right_layout(rows, columns) && first >= 0 && last <= pages &&
                at.size[10] == pages * PAGE_WORDS && (columns + 511) / 512 == pages &&
                at.size[11] == 8 * rows && at.size[14] == GATE_SUMS * rows;
    for (int k = 0; right && k < 4; k++)
        right = at.size[k] == rows / 8 * columns && at.size[4 + k] == columns;
    for (int64_t k = 0; right && k < at.size[11]; k++)
        right = ((const uint8_t *)at.data[11])[k] < 16;
    if (!fitting(&at, right))
        return NULL;
    const uint8_t *const bits[4] = {at.data[0], at.data[1], at.data[2], at.data[3]};
    const uint64_t *const masks[4] = {at.data[4], at.data[5], at.data[6], at.data[7]};
    Py_BEGIN_ALLOW_THREADS
    at.kernel->gate_sums(bits, masks, columns, rows, at.data[10], at.data[11], first, last,
                         at.data[14]);
    Py_END_ALLOW_THREADS
    release(&at);
    Py_RETURN_NONE;
}

/* give_back(): free memory goes to the system, where the C library keeps it for itself */
static PyObject *call_give_back(PyObject *self, PyObject *given)
{
    (void)self;
    (void)given;
#if defined(__GLIBC__)
    Py_BEGIN_ALLOW_THREADS
    malloc_trim(0);
    Py_END_ALLOW_THREADS
#endif
    Py_RETURN_NONE;
}

#define ENGINE_METHODS \
    {"give_back", call_give_back, METH_NOARGS, NULL}, \
    {"combine", call_combine, METH_VARARGS, NULL}, \
    {"bit_planes", call_bit_planes, METH_VARARGS, NULL}, \
    {"field_multiply", call_field_multiply, METH_VARARGS, NULL}, \
    {"field_weighted", call_field_weighted, METH_VARARGS, NULL}, \
    {"evaluated", call_evaluated, METH_VARARGS, NULL}, \
    {"gate_sums", call_gate_sums, METH_VARARGS, NULL},
