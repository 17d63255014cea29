// leat schema: proposes the stream and schema sections of a job from a data file.
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>

#include "commands.h"
#include "stream/inspect/inspect.h"
#include "stream/inspect/propose.h"

namespace leat {

void AddSchemaCommand(CLI::App& app, int* result) {
  struct Options {
    std::string file, label, delimiter;
    uint64_t rows = 0;
    bool header = false, no_header = false;
  };
  const auto a = std::make_shared<Options>();
  auto* command =
      app.add_subcommand("schema", "propose the stream and schema sections of a job from a data file");
  command->add_option("file", a->file, "CSV or JSON-lines file, optionally gzip-compressed")->required();
  command->add_option("--label", a->label, "column to predict (default: the proposal lists candidates)");
  command->add_option("--rows", a->rows, "number of rows to read (default: the whole file)")
      ->check(CLI::PositiveNumber);
  command->add_option("--delimiter", a->delimiter,
                      "CSV delimiter: one character, or `tab` (default: detected)");
  auto* header = command->add_flag("--header", a->header,
                                   "CSV: the first line has the column names (default: detected)");
  command->add_flag("--no-header", a->no_header, "CSV: the first line is a record")->excludes(header);
  command->callback([a, result] {
    stream::InspectOptions options{.rows = a->rows};
    if (!a->delimiter.empty()) {
      options.delimiter = stream::ParseDelimiter(a->delimiter);
      if (!options.delimiter) {
        throw std::invalid_argument("--delimiter is '" + a->delimiter + "'; " + stream::kDelimiterRule);
      }
    }
    if (a->header || a->no_header) options.header = a->header;
    const auto inspection = stream::Inspect(a->file, options);
    if (!inspection.ok()) throw std::invalid_argument(inspection.status().message());
    try {
      std::fputs(stream::Propose(*inspection, {.path = a->file, .label = a->label}).c_str(), stdout);
    } catch (const std::invalid_argument& e) {
      throw std::invalid_argument(a->file + ": " + e.what());
    }
    *result = 0;
  });
}

}  // namespace leat
