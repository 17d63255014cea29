// leat publish: replays files into a topic.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

#include "base/clock.h"
#include "base/exit_status.h"
#include "base/text.h"
#include "base/threads/thread.h"
#include "cli/commands.h"
#include "cli/topic_options.h"
#include "run/launcher/signals.h"
#include "show/report/display.h"
#include "stream/csv/delimiter.h"
#include "stream/publish/publish.h"
#include "stream/publish/rows.h"

namespace leat {
namespace {

struct PublishOptions {
  TopicOptions topic;
  stream::RowsOptions rows;
  std::string delimiter;
  bool header = false, no_header = false;
  uint32_t partitions = 0;
  double rate = 0;
  bool shuffle = false;
  uint64_t seed = 1;
};

std::string BytesText(uint64_t bytes) {
  return bytes < 1'000'000 ? Formatted("%.1f kB", static_cast<double>(bytes) / 1e3)
                           : Formatted("%.1f MB", static_cast<double>(bytes) / 1e6);
}

// The line of a terminal that says how far it is.
class Progress {
 public:
  Progress(uint64_t total, const Clock& clock)
      : total_(total),
        clock_(clock),
        begin_(clock.Now()),
        shown_(begin_),
        live_(isatty(STDERR_FILENO) != 0) {}
  ~Progress() { Clear(); }
  void Show(const stream::Published& done) {
    constexpr Duration kInterval = std::chrono::milliseconds(200);
    const Time now = clock_.Now();
    if (!live_ || now - shown_ < kInterval) return;
    shown_ = now;
    std::fprintf(
        stderr, "\r\x1b[K%s of %s records  %.0f%%  %s/s", report::Grouped(done.records).c_str(),
        report::Grouped(total_).c_str(),
        100 * static_cast<double>(done.records) / static_cast<double>(total_),
        report::Grouped(static_cast<uint64_t>(static_cast<double>(done.records) / Seconds(now - begin_)))
            .c_str());
  }
  void Clear() {
    if (live_) std::fputs("\r\x1b[K", stderr);
  }

 private:
  const uint64_t total_;
  const Clock& clock_;
  const Time begin_;
  Time shown_;
  const bool live_;
};

std::unique_ptr<stream::TopicWriter> OpenWriter(const PublishOptions& a, const job::AnyStream& topic) {
  const Status made = topic->Create(a.partitions);
  // A user who may not create topics may write to an existing one.
  if (!made.ok() && made.code() != Code::kPermissionDenied) Throw(made);
  auto writer = OrThrow(topic->OpenWriter());
  if (a.partitions > 0 && writer->partitions() != a.partitions) {
    throw std::invalid_argument(topic->Describe() + " has " + std::to_string(writer->partitions()) +
                                " partitions, not " + std::to_string(a.partitions) +
                                "; go without --partitions");
  }
  return writer;
}

void Explain(const PublishOptions& a, const stream::Rows& rows) {
  if (rows.columns.empty()) return;
  const std::string names = Joined(rows.columns);
  std::fprintf(stderr, "%s: the header is not published; for the job's schema: columns: [%s]\n",
               a.rows.paths.front().c_str(), names.c_str());
}

int RunPublish(PublishOptions a) {
  launcher::BlockSignals();
  if (!a.delimiter.empty()) {
    a.rows.delimiter = stream::ParseDelimiter(a.delimiter);
    if (!a.rows.delimiter) throw std::invalid_argument("--" + stream::WhyNoDelimiter(a.delimiter));
  }
  if (a.header || a.no_header) a.rows.header = a.header;
  const job::AnyStream topic = ReadTopic(a.topic);
  const auto rows = stream::OpenRows(a.rows);
  if (!rows.ok()) Throw(rows.status());
  const auto writer = OpenWriter(a, topic);
  Explain(a, *rows);

  const uint64_t total = rows->source->Ranges()->at(0).end;
  const MonotonicClock clock;
  StopEvent stopped;
  // The second time, Ctrl-C ends the process.
  const launcher::SignalWatch signals([&stopped](int) {
    if (stopped.is_set()) _exit(ExitStatus::kInterrupted);
    stopped.Set();
  });
  Progress progress(total, clock);
  stream::Published done;
  const Time begin = clock.Now();
  const Status status = stream::Publish(
      *rows->source, *writer,
      {.rate = a.rate, .shuffle = a.shuffle ? std::optional(a.seed) : std::nullopt, .key = rows->key.get()},
      {.clock = clock,
       .wait = [&](Duration time) { (void)stopped.Await(time); },
       .stopped = [&] { return stopped.is_set(); },
       .progress = [&](const stream::Published& now) { progress.Show(now); }},
      &done);
  const double seconds = Seconds(clock.Now() - begin);
  progress.Clear();
  if (done.without_key > 0) {
    std::fprintf(stderr, "%s records have no '%s': they are published without a key, round robin\n",
                 report::Grouped(done.without_key).c_str(), a.rows.key.c_str());
  }
  const bool all = done.records == total;
  std::printf(
      "%spublished %s%s records, %s, in %.1f s (%s/s) to %s, %u partitions\n",
      status.ok() && !all ? "interrupted: " : "", report::Grouped(done.records).c_str(),
      all ? "" : (" of " + report::Grouped(total)).c_str(), BytesText(done.bytes).c_str(), seconds,
      report::Grouped(static_cast<uint64_t>(static_cast<double>(done.records) / std::max(seconds, 1e-3)))
          .c_str(),
      topic->Describe().c_str(), writer->partitions());
  std::fflush(stdout);
  ThrowIfError(status);
  return all ? 0 : ExitStatus::kInterrupted;
}

}  // namespace

void AddPublishCommand(CLI::App& app, int* result) {
  const auto a = std::make_shared<PublishOptions>();
  auto* command = app.add_subcommand("publish", "replay idx, CSV or JSON-lines files into a topic");
  command
      ->add_option("files", a->rows.paths,
                   "files, optionally gzip-compressed, one after the other; idx: images, then labels")
      ->required();
  AddTopicOptions(command, &a->topic);
  command->add_option("--partitions", a->partitions, "of the topic, if it does not exist yet (default: 4)")
      ->check(CLI::Range(1u, 1024u));
  command->add_option("--rate", a->rate, "records per second (default, or 0: as fast as possible)")
      ->check(CLI::Range(0.0, 1e9));
  command->add_flag("--shuffle", a->shuffle, "in random order (default: the order of the files)");
  command->add_option("--seed", a->seed, "of the random order")->capture_default_str();
  command->add_option("--key", a->rows.key,
                      "the field, such as customer.id, that is the record's key and chooses its partition "
                      "(default: no key, round robin)");
  command->add_option("--format", a->rows.format, "of the files (default: by their contents)")
      ->check(CLI::IsMember({"idx", "csv", "json"}));
  auto* header = command->add_flag("--header", a->header,
                                   "CSV: the first line has the column names and is not published "
                                   "(default: detected)");
  command->add_flag("--no-header", a->no_header, "CSV: the first line is a record")->excludes(header);
  command->add_option("--delimiter", a->delimiter, "CSV: one character, or `tab` (default: detected)");
  command->add_option(
      "--encoding", a->rows.encoding,
      "of CSV and JSON files, such as latin-1; records are published as UTF-8 (default: utf-8)");
  command->callback([a, result] { *result = RunPublish(*a); });
}

}  // namespace leat
