// A job's `stream:` and `schema:` sections for a file that was inspected.
#pragma once

#include <string>

#include "stream/inspect/inspect.h"

namespace leat::stream {

struct ProposeOptions {
  std::string path;   // as the job is to name the file
  std::string label;  // column that is to be predicted; empty: candidates are named in a comment
};

// YAML with a comment on everything that was decided. What is proposed:
//   numbers   {type: number} with mean and std, of log(1 + x) where the values are skewed
//   text      {type: category} with its values; hashed into buckets when they are many
//   ignored   constant columns, text of which (nearly) every value is another one, numbers that count rows,
//             lists and objects, and columns of numbers with so many missing values that too many records
//             would become dead letters
// Throws std::invalid_argument when there is no such label, it cannot be one, or no feature is left.
std::string Propose(const Inspection& inspection, const ProposeOptions& options);

}  // namespace leat::stream
