#include "job/input/csv_files.h"

#include <stdexcept>

#include "base/exit_status.h"
#include "stream/file/lines.h"

namespace leat::job {

std::optional<stream::Delimiter> FindDelimiter(const stream::FileSourceOptions& files,
                                               const stream::Schema& schema) {
  std::optional<stream::Delimiter> first;
  for (const auto& path : files.paths) {
    const auto text = stream::SampleText(path, {.format = files.format, .encoding = files.encoding});
    if (!text.ok()) return std::nullopt;
    const auto found = stream::ChooseDelimiter(path, stream::CsvSample(*text), schema, files.header);
    if (!found.ok()) Throw(found.status());
    if (!first) first = *found;
    if (first->character != found->character) {
      throw std::invalid_argument(path + ": its delimiter is " + stream::DelimiterName(found->character) +
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

}  // namespace leat::job
