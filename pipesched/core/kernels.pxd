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

cpdef long long insert(long long[::1] order, long long since, long long until, long long[::1] first,
                       long long[::1] before, long long[::1] lag, long long[::1] duration, long long[::1] take,
                       long long[::1] give, long long[::1] machine, long long[::1] capacity, long long[::1] least,
                       long long[::1] base, long long[::1] gaps, long long[::1] gap_start, long long[::1] gap_end,
                       long long[::1] changes, long long[::1] change_time, long long[::1] change_size,
                       long long[::1] level, long long[::1] start, long long[::1] end, long long[::1] tie)

cdef void push(long long[::1] heap, long long base, long long size, long long value) noexcept

cdef long long pop(long long[::1] heap, long long base, long long size) noexcept

cdef void push_event(long long[::1] times, long long[::1] codes, long long size, long long time,
                     long long code) noexcept

cdef long long pop_event(long long[::1] times, long long[::1] codes, long long size) noexcept

cpdef long long dispatch(long long steps, long long ahead, long long reach, long long weight_first,
                         long long forward_count, long long[::1] duration, long long[::1] take, long long[::1] give,
                         long long[::1] machine, long long[::1] grace, long long[::1] first, long long[::1] after,
                         long long[::1] lag, long long[::1] rank, long long[::1] by_rank, long long[::1] is_weight,
                         long long[::1] forwards, long long[::1] forward_stop, long long[::1] base,
                         long long[::1] coming_base, long long[::1] waits, long long[::1] started,
                         long long[::1] next_forward, long long[::1] capacity, long long[::1] busy,
                         long long[::1] inputs, long long[::1] input_count, long long[::1] weights,
                         long long[::1] weight_count, long long[::1] coming, long long[::1] coming_count,
                         long long[::1] order, long long[::1] order_count, long long[::1] event_times,
                         long long[::1] event_codes, long long[::1] choices, long long[::1] pending,
                         long long[::1] state)

cpdef bint fits(long long[::1] order, long long[::1] take, long long[::1] give, long long capacity)
