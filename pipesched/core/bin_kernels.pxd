# What the columns of `bin_kernels.py` are in C; the types of local names follow from these.

ctypedef long long Int

cdef Int OVER, FULL, OFTEN, MOST_GIVEN, CASES, PAIRS, LONGER

cdef class Rows:
    cdef Int[::1] first, before, lag, sender, ticks, owner, more, partner, end
    cdef readonly Int[::1] works, sizes, slopes, lags
    cdef Int m
    cdef Int time(self, Int base) noexcept
    cdef Int trace(self, Int base) noexcept
    cpdef void trace_all(self, Int[::1] found) noexcept

cdef Int pick(double share, Int count) noexcept

cdef class Moves:
    cdef Rows rows
    cdef Int m, walked
    cdef double scale
    cdef object look
    cdef double[::1] levels
    cdef readonly Int[::1] bin_of, room, works, sizes, count, takes
    cdef Int[::1] work, size, tokens, mine, theirs, left, kept
    cdef Int[::1] key, one, two, item, back, source, target, less_work, less_size
    cdef Int taken(self, Int group) except? -1
    cdef Int slowest(self) noexcept
    cdef Int items(self, Int group, Int[::1] found, Int most, Int spared) noexcept
    cdef void shift(self, Int give, Int get, Int work, Int size) noexcept
    cdef void put(self, Int item, Int target) noexcept
    cdef Int add(self, Int case, Int item, Int back, Int target) noexcept
    cdef Int offer(self, Int[::1] items, Int count, Int group) noexcept
    cdef Int settle(self, Int count, Int below) except? -1
    cpdef Int give(self, Int slow, Int[::1] fast) except? -1
    cpdef Int rearrange(self, Int group) except? -1
    cpdef Int trade(self, Int slow, Int other) except? -1
    cdef Int insert(self, Int count, Int most, Int key, Int item, Int back) noexcept
    cpdef Int roam(self, Int[::1] groups, double[::1] draws) except? -1
