// leat peek: shows records of a topic, as they are and as the decoder sees them.
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

#include "base/exit_status.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/topic_options.h"
#include "job/model/model_section.h"
#include "show/report/display.h"
#include "stream/inspect/peek.h"
#include "stream/schema.h"

namespace leat {
namespace {

constexpr size_t kWidth = 120;           // where there is no terminal
constexpr uint64_t kReadAtOnce = 1'000;  // records

struct PeekOptions {
  TopicOptions topic;
  int64_t partition = -1;
  std::string offset;
  uint64_t count = 10;
  std::string schema;
  bool json = false;
};

stream::PeekOptions Plan(const PeekOptions& a) {
  stream::PeekOptions plan{.partition = std::nullopt, .count = a.count, .offset = std::nullopt};
  if (a.partition >= 0) plan.partition = static_cast<uint32_t>(a.partition);
  plan.latest = a.offset == "latest";
  if (a.offset.empty() || a.offset == "earliest" || plan.latest) return plan;
  plan.offset = ToNumber<uint64_t>(a.offset);
  if (!plan.offset)
    throw std::invalid_argument("--offset is '" + a.offset + "'; it is a number, earliest or latest");
  return plan;
}

size_t ScreenWidth() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kWidth;
}

// A job's own schema, unless there is another.
std::optional<stream::Schema> ReadSchema(const PeekOptions& a) {
  const std::string& file = a.schema.empty() ? a.topic.job : a.schema;
  if (file.empty()) return std::nullopt;
  const Config job = Config::ParseFile(file);
  if (a.schema.empty() && !job.Has("schema")) return std::nullopt;
  std::string without_model;
  auto schema = job::DecodingSchema(job, &without_model);
  if (!without_model.empty()) {
    std::fprintf(stderr, "labels are not compared with the classes of the model: %s\n",
                 without_model.c_str());
  }
  return schema;
}

int RunPeek(const PeekOptions& a) {
  const job::AnyStream topic = ReadTopic(a.topic);
  const std::optional<stream::Schema> schema = ReadSchema(a);
  const auto source = OrThrow(topic->Open());
  const auto there = OrThrow(source->Ranges());
  stream::RecordPrinter::Options look{.json = a.json, .width = ScreenWidth()};
  uint64_t records = 0;
  for (const auto& range : there) {
    records += range.end - range.begin;
    look.last_offset = std::max(look.last_offset, range.end);
  }
  auto plan = stream::PlanPeek(there, Plan(a));
  if (!plan.ok()) throw std::invalid_argument(topic->Describe() + ": " + plan.status().message());
  if (!a.json) {
    std::printf("%s: %s, %s records\n%s", topic->Describe().c_str(),
                Plural(there.size(), "partition").c_str(), report::Grouped(records).c_str(),
                plan->empty() ? "" : "\n");
  }
  stream::RecordPrinter printer(schema ? &*schema : nullptr, look);
  stream::RecordBatch batch;
  batch.wanted = printer.wanted();
  for (const auto& range : *plan) {
    for (uint64_t at = range.begin; at < range.end; at += kReadAtOnce) {
      const Status read = source->Read(range.partition, at, std::min(range.end, at + kReadAtOnce), &batch);
      ThrowIfError(read);
      std::string text;
      printer.Print(batch, &text);
      std::fputs(text.c_str(), stdout);
    }
  }
  return 0;
}

}  // namespace

void AddPeekCommand(CLI::App& app, int* result) {
  const auto a = std::make_shared<PeekOptions>();
  auto* command = app.add_subcommand("peek", "show records of a topic, and what a schema makes of them");
  AddTopicOptions(command, &a->topic);
  command->add_option("--partition", a->partition, "of this partition only")->check(CLI::Range(0, 1 << 20));
  command->add_option("--offset", a->offset,
                      "the first record of each partition: its offset, or earliest; latest: the last records "
                      "(default: earliest)");
  command->add_option("--count", a->count, "number of records in all")->capture_default_str();
  command
      ->add_option("--schema", a->schema,
                   "job file with a `schema:`: show features and labels, or why a record is a dead letter "
                   "(default: the schema of --job, if it has one)")
      ->check(CLI::ExistingFile);
  command->add_flag("--json", a->json, "print one JSON object per record, with the whole record");
  command->callback([a, result] { *result = RunPeek(*a); });
}

}  // namespace leat
