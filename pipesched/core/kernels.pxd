# What the columns of `kernels.py` are in C; the types of local names follow from these.

cimport cython
from libc cimport math

ctypedef long long Int
ctypedef unsigned long long Word

cdef Word WORD

cpdef void compress(Int[::1] keys, Int[::1] values, Int[::1] lags, Int[::1] first, Int[::1] found, Int[::1] found_lags)

cpdef Int replay(Int[::1] order, Int[::1] stops, Int[::1] first, Int[::1] before, Int[::1] lag, Int[::1] duration,
                 Int[::1] start, Int[::1] end, Int[::1] clock, Int[::1] place, Int[::1] beyond, Int[::1] awake)

cpdef void critical(Int[::1] order, Int[::1] begins, Int[::1] machine, Int[::1] position, Int[::1] first,
                    Int[::1] before, Int[::1] lag, Int[::1] start, Int[::1] end, Int[::1] found, Int[::1] left,
                    Int count)

cpdef Int block_moves(Int[::1] order, Int[::1] begins, Int[::1] machine, Int[::1] position, Int[::1] first,
                      Int[::1] before, Int[::1] lag, Int[::1] start, Int[::1] end, Int[::1] row, Int[::1] following,
                      Int[::1] preceding, Int latest, object toss, Int[::1] blocks, Int[::1] row_seen, Int[::1] seen,
                      Int[::1] found) except? -1

cdef void move(Int[::1] order, Int source, Int target) noexcept

cdef Int last_end(Int[::1] order, Int[::1] begins, Int[::1] offset, Int[::1] end) noexcept

@cython.locals(width=Int, found=Int)
cdef Int below(object bits, Int count) except? -1

cpdef Int shorten(Int rounds, Int slack, Int busy, Int most_dry, object look, object toss, object bits,
                  Int[::1] best, Int[::1] begins, Int[::1] first, Int[::1] before, Int[::1] lag, Int[::1] duration,
                  Int[::1] take, Int[::1] give, Int[::1] capacity, Int[::1] offset, Int[::1] row,
                  Int[::1] following, Int[::1] preceding, Int[::1] order, Int[::1] start, Int[::1] end,
                  Int[::1] machine, Int[::1] position, Int[::1] new_start, Int[::1] new_end, Int[::1] seen,
                  Int[::1] row_seen, Int[::1] blocks, Int[::1] moves, Int[::1] place, Int[::1] clock,
                  Int[::1] beyond, Int[::1] awake) except? -1

cdef void push(Int[::1] keys, Int[::1] items, Int base, Int size, Int key, Int item) noexcept

cdef Int pop(Int[::1] keys, Int[::1] items, Int base, Int size) noexcept

cpdef Int dispatch(Int steps, Int ahead, Int reach, Int weight_first, Int forward_count, Int[::1] duration,
                   Int[::1] take, Int[::1] give, Int[::1] machine, Int[::1] grace, Int[::1] first, Int[::1] after,
                   Int[::1] lag, Int[::1] rank, Int[::1] by_rank, Int[::1] is_weight, Int[::1] forwards,
                   Int[::1] forward_stop, Int[::1] base, Int[::1] coming_base, Int[::1] waits, Int[::1] started,
                   Int[::1] next_forward, Int[::1] capacity, Int[::1] busy, Int[::1] inputs, Int[::1] input_count,
                   Int[::1] weights, Int[::1] weight_count, Int[::1] coming, Int[::1] coming_count, Int[::1] order,
                   Int[::1] order_count, Int[::1] event_times, Int[::1] event_codes, Int[::1] choices,
                   Int[::1] pending, Int[::1] state)

cpdef bint fits(Int[::1] order, Int at, Int stop, Int[::1] take, Int[::1] give, Int capacity)

cpdef Int arrange(Int[::1] first, Int[::1] after, Int[::1] left, Int[::1] height,
                        Int[::1] tasks)

cpdef Int share_vectors(Int[::1] first, Int[::1] before, Int[::1] unread,
                              Int[::1] vector, Int[::1] free)

ctypedef fused number:
    long long
    double

cpdef void sweep(Int begin, Int[::1] first, Int[::1] before, Int[::1] vector, number[::1] lag,
                 number[:, ::1] delays, number[:, ::1] lengths, number[:, ::1] ends)

cpdef void pile(Int[::1] events, Int[::1] stops, Int[:, ::1] cells, Int[::1] level, Int[:, ::1] most)

cpdef void trace(Int[::1] first, Int[::1] before, Int[::1] delays, Int[::1] ends,
                 Int[::1] last, Int[::1] found)

cpdef void lengthen(Int[::1] order, Int[::1] first, Int[::1] after, Int[::1] lag,
                    Int[::1] duration, Int[::1] lengths)

cpdef Int greedy(Int steps, Int events, Int[::1] heap, Int alternate, Int first_patience, Int patience,
                 Int weight_patience, Int microbatches, Int[::1] in_flight, Int[::1] duration, Int[::1] change,
                 Int[::1] size, Int[::1] caught, Int[::1] there, Int[::1] back, Int[::1] capacity, Int[::1] done,
                 Int[::1] free_at, Int[::1] after_forward, Int[::1] forward_at, Int[::1] input_at, Int[::1] order)

cpdef Int match(Int[::1] duration, Int[::1] first, Int[::1] after, Int[::1] lag, Int[::1] line, Int[::1] one,
                Int[::1] two, Int[::1] base, Int[::1] touched_first, Int[::1] touched, Int[::1] rank,
                Int[::1] by_rank, Int[::1] here, Int[::1] there, Int[::1] left, Int[::1] ready, Int[::1] waiting,
                Int[::1] count, Int[::1] is_busy, Int[::1] is_dirty, Int[::1] dirty, Int[::1] last, Int[::1] times,
                Int[::1] codes, Int[::1] end, Int[::1] picked, Int[::1] behind_here, Int[::1] behind_there)

@cython.locals(a=Word, b=Word, c=Word, count=Word, drawn=Word, chosen=Int, place=Int)
cpdef void draw(double[::1] width, Int[::1] inside, double[::1] height, Word[:, ::1] words, double[:, ::1] rows)
