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
