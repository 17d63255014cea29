// LEAT_MULTIVERSION before a function that is one plain loop: the compiler makes a copy for each width of
// vector and the loader picks what the machine has. Not under sanitizers, whose runtimes start after the
// loader has already run the pick.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(LEAT_SANITIZED)
#define LEAT_MULTIVERSION \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"), optimize("O3")))
#else
#define LEAT_MULTIVERSION
#endif
