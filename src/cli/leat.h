// Leat as a library: a program with layers, sources and placements of its own. docs/cpp.md.
//
//   class Gain final : public leat::nn::Layer { ... };
//
//   int main(int argc, char** argv) {
//     return leat::Main(argc, argv, {.layers = {{"gain", leat::nn::Make<Gain>}}});
//   }
#pragma once

#include "base/config/config.h"         // IWYU pragma: export
#include "compute/nn/layer.h"           // IWYU pragma: export
#include "compute/nn/layers/kinds.h"    // IWYU pragma: export
#include "compute/ops/ops.h"            // IWYU pragma: export
#include "job/extensions/extensions.h"  // IWYU pragma: export
#include "protocol/placement.h"         // IWYU pragma: export
#include "stream/log/log.h"             // IWYU pragma: export
#include "stream/source.h"              // IWYU pragma: export

namespace leat {

using job::Extensions;
using job::SourceRequest;

// Runs a command of Leat and returns its exit status. The program has all commands, and starts itself
// wherever Leat's program would start a role.
int Main(int argc, char** argv, Extensions extensions = {});

}  // namespace leat
