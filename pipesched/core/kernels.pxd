# What the columns of `kernels.py` are in C; the types of local names follow from these.

cpdef void compress(long long[::1] keys, long long[::1] values, long long[::1] lags, long long[::1] first,
                    long long[::1] found, long long[::1] found_lags)

cpdef long long replay(long long[::1] order, long long[::1] stops, long long[::1] first, long long[::1] before,
                       long long[::1] lag, long long[::1] duration, long long[::1] start, long long[::1] end,
                       long long[::1] clock, long long[::1] place, long long[::1] sleeper, long long[::1] beyond,
                       long long[::1] awake)

cpdef void critical(long long[::1] order, long long[::1] begins, long long[::1] machine, long long[::1] position,
                    long long[::1] first, long long[::1] before, long long[::1] lag, long long[::1] start,
                    long long[::1] end, long long[::1] found, long long[::1] left, long long count)

cpdef long long arrange(long long[::1] first, long long[::1] after, long long[::1] left, long long[::1] height,
                        long long[::1] tasks)

cpdef long long share_vectors(long long[::1] first, long long[::1] before, long long[::1] unread,
                              long long[::1] vector, long long[::1] free)

ctypedef fused number:
    long long
    double

cpdef void sweep(long long begin, long long[::1] first, long long[::1] before, long long[::1] vector, number[::1] lag,
                 number[:, ::1] delays, number[:, ::1] lengths, number[:, ::1] ends)

cpdef void trace(long long[::1] first, long long[::1] before, long long[::1] delays, long long[::1] ends,
                 long long[::1] last, long long[::1] found)
