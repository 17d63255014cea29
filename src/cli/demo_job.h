// The job of `leat demo`, examples/demo.yaml: compiled in, so that the demo needs no file.
#pragma once

namespace leat {

extern const char* const kDemoJob;

}  // namespace leat
