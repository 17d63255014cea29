// Proposes the `stream:` and `schema:` sections of a job for an inspected file.
#pragma once

#include <string>

#include "stream/inspect/inspect.h"

namespace leat::stream {

struct ProposeOptions {
  std::string path;  // the path to write into the job
  // A topic: the settings of `stream:` as YAML, in place of files. `path` is its name.
  std::string stream;
  std::string label;  // column to predict; empty: candidates are named in a comment
};

// YAML with a comment on every decision. Proposals:
//   numbers   {type: number} with mean and std, of log(1 + x) if the values are skewed
//   text      {type: category} with its values, or hashed into buckets if there are many
//   nested    `path`; of JSON objects in objects
//   codes     digits with zeros before them: a category
//   missing   `default`: the mean, or no category, for records without the value; CSV: `missing`, the texts
//             that stand for one
//   ignored   constant columns, text with (nearly) only distinct values, row numbers, lists and objects, and
//             columns of numbers with so many texts that too many records would become dead letters; values
//             that most records lack, but for texts of CSV
// Throws std::invalid_argument if the label does not exist or is unsuitable, or if no feature is left.
std::string Propose(const Inspection& inspection, const ProposeOptions& options);

}  // namespace leat::stream
