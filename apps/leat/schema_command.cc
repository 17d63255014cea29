// leat schema: what a job would say of a file of records.
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
  auto* command = app.add_subcommand("schema", "propose the stream and schema sections of a job for a file");
  command->add_option("file", a->file, "CSV or JSON lines, plain or gzip'd")->required();
  command->add_option("--label", a->label, "the column to predict (default: candidates are named)");
  command->add_option("--rows", a->rows, "read so many rows (default: the whole file)")
      ->check(CLI::PositiveNumber);
  command->add_option("--delimiter", a->delimiter,
                      "between the fields of CSV: a character, or tab (default: found)");
  auto* header =
      command->add_flag("--header", a->header, "the first line of CSV names the columns (default: found)");
  command->add_flag("--no-header", a->no_header, "it does not")->excludes(header);
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
