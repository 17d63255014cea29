// How loops that LEAT_MULTIVERSION multiplies are put together from parts: a part must be inlined, or it
// would be compiled once, for the oldest machine.
#pragma once

#define LEAT_INLINE [[gnu::always_inline]] inline
// The same for a lambda: [](float x) LEAT_INLINE_LAMBDA { return x; }
#define LEAT_INLINE_LAMBDA __attribute__((always_inline))
