#include "job/input/input_files.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "base/exit_status.h"
#include "stream/csv/split.h"
#include "stream/file/lines.h"

namespace leat::job {

std::optional<stream::Delimiter> FindDelimiter(const stream::FileSourceOptions& files,
                                               const stream::Schema& schema) {
  std::optional<stream::Delimiter> first;
  for (const auto& path : files.paths) {
    const auto text = stream::SampleText(path, {.format = files.format, .encoding = files.encoding});
    if (!text.ok()) return std::nullopt;
    const auto found = OrThrow(stream::ChooseDelimiter(path, stream::CsvSample(*text), schema, files.header));
    if (!first) first = found;
    if (first->character != found.character) {
      throw std::invalid_argument(path + ": its delimiter is " + stream::DelimiterName(found.character) +
                                  ", " + files.paths.front() + " has " +
                                  stream::DelimiterName(first->character));
    }
  }
  return first;
}

std::vector<std::string> ReadHeader(const stream::FileSourceOptions& files, const stream::CsvDialect& csv) {
  std::vector<std::string> first;
  for (const auto& path : files.paths) {
    const auto names = stream::ReadCsvHeader(path, csv, files.encoding);
    if (!names.ok()) Throw(names.status());
    if (first.empty()) first = *names;
    if (*names != first)
      throw std::invalid_argument(path + ": names other columns than " + files.paths.front());
  }
  return first;
}

bool NamesFields(const stream::Schema& schema, std::string_view record) {
  std::vector<std::string_view> names;
  std::string scratch;
  if (!stream::SplitCsv(record, schema.dialect(), &names, &scratch).empty()) return false;
  return std::ranges::all_of(schema.fields, [&](const stream::Field& field) {
    return !field.from && std::ranges::find(names, field.name) != names.end();
  });
}

void UseHeader(const stream::FileSourceOptions& files, std::vector<std::string> names,
               stream::Schema* schema) {
  const std::string& path = files.paths.front();
  try {
    schema->UseColumns(std::move(names), path);
  } catch (const std::invalid_argument&) {
    // A title or comments above the header are taken for it.
    const auto text = stream::SampleText(path, {.format = files.format, .encoding = files.encoding});
    if (!text.ok()) throw;
    const stream::CsvSample sample(*text);
    for (size_t lines = 1; lines <= stream::kMostAboveHeader; ++lines) {
      const stream::CsvSample below = sample.Below(lines);
      const auto records = below.Records(schema->dialect());
      if (below.BeginsBlank() || records.empty() || !NamesFields(*schema, records.front())) continue;
      throw std::invalid_argument(path + ": " + stream::NamesAreInLine(path, lines + 1));
    }
    throw;
  }
}

}  // namespace leat::job
