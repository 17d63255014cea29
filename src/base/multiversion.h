// LEAT_MULTIVERSION before a function that is one plain loop: the compiler emits one version per vector
// width, and the loader picks the widest that the processor supports. Off under sanitizers: the loader picks
// before their runtimes are initialised.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(LEAT_SANITIZED)
#define LEAT_MULTIVERSION \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"), optimize("O3")))
#else
#define LEAT_MULTIVERSION
#endif
