// Shared by the tests that start processes.
#pragma once

namespace leat::launcher {

// First argument of a test program that is started as a child: main() (main_test.cc) then acts on the others.
inline constexpr const char* kChild = "child";

}  // namespace leat::launcher
