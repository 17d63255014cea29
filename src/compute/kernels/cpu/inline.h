// LEAT_INLINE: for helpers of LEAT_MULTIVERSION functions. They must be inlined, or they would be compiled
// once, for the oldest processor.
#pragma once

#define LEAT_INLINE [[gnu::always_inline]] inline
// The same for a lambda: [](float x) LEAT_INLINE_LAMBDA { return x; }
#define LEAT_INLINE_LAMBDA __attribute__((always_inline))
