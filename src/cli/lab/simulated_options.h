// Options of commands that simulate: values with a unit, checked before anything begins.
#pragma once

#include <CLI/CLI.hpp>
#include <stdexcept>
#include <string>

#include "lab/sim/events/distribution.h"

namespace leat {

// Validates an option by `parse`: the text of its exception, after the option's name, becomes the reason.
template <class Parse>
CLI::Validator ValidIf(Parse parse) {
  return CLI::Validator(
      [parse](std::string& text) {
        try {
          (void)parse(text);
          return std::string();
        } catch (const std::invalid_argument& error) {
          return std::string(error.what());
        }
      },
      "");
}

inline CLI::Validator ATime() {
  return ValidIf(sim::ParseDuration);
}
inline CLI::Validator ABandwidth() {
  return ValidIf(sim::ParseBandwidth);
}
inline CLI::Validator ASize() {
  return ValidIf(sim::ParseBytes);
}

}  // namespace leat
