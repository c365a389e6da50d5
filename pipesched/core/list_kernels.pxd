# What the columns of `list_kernels.py` are in C.

ctypedef long long Int

cdef class Heaps:
    cdef Int[::1] items, begin, size, key, place
    cdef void push(self, Int heap, Int item) noexcept
    cdef void rise(self, Int heap, Int item) noexcept
    cdef void sink(self, Int heap, Int item) noexcept
    cdef void remove(self, Int heap, Int item) noexcept
    cdef Int pop(self, Int heap) noexcept

cpdef Int sort_by_key(Int[::1] first, Int[::1] after, Int[::1] waiting, Int[::1] order,
                            Heaps ready)

cdef class MemoryPools:
    cdef Int[::1] take, give, ask, pool, capacity, owner, first, left, gone, claim, hold, due
    cdef Int[::1] unfinished, begun, has_begun
    cdef readonly Int[::1] used
    cdef Int pools, jobs, begun_count, next_job
    cpdef Int leader(self) noexcept
    cpdef Int fits(self, Int task) noexcept
    cdef Int is_safe(self, Int pool, Int task) noexcept
    cdef Int highest(self, Int row, Int level, Int but) noexcept
    cpdef void start(self, Int task) noexcept
    cpdef Int end(self, Int task) noexcept
    cdef void leave(self, Int owner, Int row, Int give) noexcept

cdef class ListRun:
    cdef MemoryPools pools
    cdef Heaps ends, arrivals, ready, units
    cdef Int[::1] duration, resource, group, first, after, lag, waiting, before_first, before, drawn
    cdef Int[::1] users_first, users, groups_first, groups, groups_count, group_place, start, unit, picked
    cdef Int[::1] changed, is_changed, best, opened, open_place, ready_first, ready_next, ready_last
    cdef Int tie, now, moment, offered, changes, opens, work
    cdef readonly Int picks
    cpdef Int run(self, Int most) noexcept
    cdef void advance(self) noexcept
    cdef void settle(self) noexcept
    cdef void finish(self, Int task) noexcept
    cdef void mark(self, Int resource) noexcept
    cdef void mark_all(self) noexcept
    cdef void offer(self, Int task) noexcept
    cdef void join(self, Int task, Int job) noexcept
    cdef void part(self, Int task, Int job) noexcept
    cdef Int least(self) noexcept
    cdef Int is_less(self, Int task, Int other) noexcept
    cdef void look_at(self, Int resource) noexcept
    cdef void set_best(self, Int resource, Int task) noexcept
    cdef void launch(self, Int task) noexcept
    cdef void occupy(self, Int task) noexcept
    cdef void pair(self, Int consumer) noexcept

cpdef Int jackson(Int[::1] head, Int[::1] work, Heaps released)

cpdef void fetches(Int[::1] begins, Int[::1] stops, Int[::1] stage, Int[::1] other, Int most, Int[::1] coming,
                   Int[::1] comes, Int[::1] near, Int[::1] found)

cpdef Int take_turns(Int[::1] order, Int[::1] stops, Int[::1] idle, Int[::1] source, Int[::1] target,
                     Int[::1] sender, Int[::1] receiver, Int[::1] waiting, Int[::1] made, Int[::1] beyond,
                     Int[::1] place, Int[::1] last, Int[::1] turns, Int[::1] free, Int[::1] run,
                     Int[::1] found, Int[::1] sends, Int[::1] after, Int[::1] behind)

cpdef bint run_in_turn(Int[::1] order, Int[::1] duration, Int[::1] machine, Int[::1] target, Int[::1] length,
                       Int[::1] one, Int[::1] two, Int beyond, Int[::1] before, Int[::1] after, Int[::1] lag,
                       Int[::1] clock, Int[::1] ready, Int[::1] start, Int[::1] end)

cpdef Int insert(Int[::1] order, Int since, Int until, Int[::1] first, Int[::1] before, Int[::1] lag,
                 Int[::1] duration, Int[::1] take, Int[::1] give, Int[::1] machine, Int[::1] capacity, Int[::1] least,
                 Int[::1] base, Int[::1] gaps, Int[::1] gap_start, Int[::1] gap_end, Int[::1] changes,
                 Int[::1] change_time, Int[::1] change_size, Int[::1] level, Int[::1] start, Int[::1] end,
                 Int[::1] tie)
