// leat schema: proposes the stream and schema sections of a job from a data file or a topic.
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>

#include "base/exit_status.h"
#include "cli/commands.h"
#include "cli/topic_options.h"
#include "stream/csv/csv_settings.h"
#include "stream/inspect/inspect.h"

namespace leat {
namespace {

constexpr uint64_t kRowsOfATopic = 100'000;

Result<stream::Inspection> InspectTopic(const TopicOptions& options, stream::InspectOptions inspect,
                                        stream::ProposeOptions* proposal) {
  const job::AnyStream topic = ReadTopic(options);
  LEAT_ASSIGN_OR_RETURN(const auto source, topic->Open());
  if (inspect.rows == 0) inspect.rows = kRowsOfATopic;
  proposal->path = topic->Describe();
  proposal->stream = StreamConfig(options).Without("labels").ToYaml();
  return stream::Inspect(topic->Describe(), *source, inspect);
}

}  // namespace

void AddSchemaCommand(CLI::App& app, int* result) {
  struct Options {
    std::string file, label, encoding;
    stream::CsvTexts csv;
    TopicOptions topic;
    uint64_t rows = 0;
    bool header = false, no_header = false;
  };
  const auto a = std::make_shared<Options>();
  auto* command = app.add_subcommand(
      "schema", "propose the stream and schema sections of a job from a data file or a topic");
  auto* file = command->add_option("file", a->file, "CSV or JSON-lines file, optionally gzip-compressed");
  for (CLI::Option* topic : AddTopicOptions(command, &a->topic)) topic->excludes(file);
  command->add_option("--label", a->label, "column to predict (default: the proposal lists candidates)");
  command
      ->add_option("--rows", a->rows, "number of rows to read (default: the whole file; of a topic, 100000)")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 40));
  command->add_option("--delimiter", a->csv.delimiter,
                      "CSV delimiter: one character, or `tab` (default: detected)");
  command->add_option("--quote", a->csv.quote, "CSV: one character, or `none` (default: detected)");
  command->add_option("--escape", a->csv.escape, "CSV: one character, or `none` (default: detected)");
  command->add_option("--decimal", a->csv.decimal, "CSV: the decimal point, . or , (default: detected)");
  auto* header = command->add_flag("--header", a->header,
                                   "CSV: the first line has the column names (default: detected)");
  command->add_flag("--no-header", a->no_header, "CSV: the first line is a record")->excludes(header);
  command->add_option("--encoding", a->encoding, "of the file, such as latin-1 or utf-16 (default: utf-8)")
      ->needs(file);
  command->callback([a, result] {
    stream::InspectOptions options{.rows = a->rows, .encoding = a->encoding};
    options.csv = stream::KnownFrom(a->csv, "--");
    if (a->header || a->no_header) options.header = a->header;
    if (a->file.empty() && a->topic.topic.empty() && a->topic.job.empty())
      throw std::invalid_argument("schema needs a file, or --topic with " + PlaceOptions());
    stream::ProposeOptions proposal{.path = a->file, .stream = "", .label = a->label};
    const auto inspection =
        a->file.empty() ? InspectTopic(a->topic, options, &proposal) : stream::Inspect(a->file, options);
    if (!inspection.ok()) Throw(inspection.status());
    try {
      std::fputs(stream::Propose(*inspection, proposal).c_str(), stdout);
    } catch (const std::invalid_argument& e) {
      throw std::invalid_argument(proposal.path + ": " + e.what());
    }
    *result = 0;
  });
}

}  // namespace leat
