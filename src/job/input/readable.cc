#include "job/input/readable.h"

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>

#include "base/exit_status.h"
#include "stream/csv/split.h"
#include "stream/dead_letters.h"
#include "stream/decode/decoder.h"
#include "stream/decode/text_hint.h"

namespace leat::job {
namespace {

// Whether the record of a file names the fields, in any order.
bool NamesFields(const stream::Schema& schema, std::string_view record) {
  std::vector<std::string_view> names;
  std::string scratch;
  if (!stream::SplitCsv(record, schema.dialect(), &names, &scratch).empty()) return false;
  return std::ranges::all_of(schema.fields, [&](const stream::Field& field) {
    return !field.from && std::ranges::find(names, field.name) != names.end();
  });
}

// Files are there to be looked into: when the first records are so bad that the job would stop, or none of
// them fits, that is said at once, and likewise when all of them are seen and too many do not fit.
void CheckFits(const Job& job, const stream::Schema& schema, stream::Source& source,
               const std::vector<stream::PartitionRange>& ranges, const std::string& path) {
  const uint64_t share = std::max<uint64_t>(1, (1 << 22) / (schema.features() + schema.labels()));
  const auto decoder = stream::MakeDecoder(schema);
  stream::DeadLetterRate rate(job.dead_letter_rate);
  stream::TextHint hint(schema.format == stream::Schema::Format::kCsv);
  stream::RecordBatch records;
  stream::DecodedRows rows;
  uint64_t seen = 0, dead = 0, all = 0;
  bool ends = true;
  std::string first;
  for (const auto& range : ranges) {
    all += range.end - range.begin;
    ends = ends && range.sealed;
    for (uint64_t at = range.begin; at < range.end && seen < stream::DeadLetterRate::kWindow; at += share) {
      const uint64_t end = std::min({range.end, at + share, at + stream::DeadLetterRate::kWindow - seen});
      if (const auto read = source.Read(range.partition, at, end, &records); !read.ok()) Throw(read);
      if (seen == 0 && schema.format == stream::Schema::Format::kCsv &&
          NamesFields(schema, AsText(records[0]))) {
        job.config.At("schema").Fail(path +
                                     ": its first record names the fields; say header: true, so that they " +
                                     "are found by name");
      }
      rows.clear();
      decoder->Decode(records, &rows);
      if (dead == 0 && !rows.dead.empty()) {
        first = "partition " + std::to_string(range.partition) + " offset " +
                std::to_string(rows.dead[0].offset) + ": " + rows.dead[0].reason;
      }
      seen += end - at;
      for (const auto& letter : rows.dead) hint.See(letter);
      dead += rows.dead.size();
      hint.SeeFitting(rows.rows);
      rate.Count(end - at, rows.dead.size());
    }
  }
  const bool whole = ends && seen == all;
  const bool above =
      whole ? stream::DeadLetterRate::Above(job.dead_letter_rate, seen, dead) : rate.exceeded();
  if (!above && (dead < seen || seen == 0)) return;
  job.config.At("schema").Fail(path + ": " + std::to_string(dead) + " of the first " + std::to_string(seen) +
                               " records do not fit the schema: " + first + hint.Describe());
}

// Devices that layers ask for have to be on this machine.
void CheckDevices(const Job& job) {
  const auto machine = job.Plan({}).machine;
  const graph::Graph graph = job.model->Build(1, false).graph;
  for (const graph::Node& node : graph.nodes()) {
    if (node.device.empty()) continue;
    try {
      machine->Find(node.device);
    } catch (const std::invalid_argument& e) {
      throw std::invalid_argument((node.where.empty() ? "" : node.where + ": ") + e.what() +
                                  " (compute: cpu_devices divides the cores)");
    }
  }
}

}  // namespace

void CheckFits(const Job& job, stream::Source& source, const std::vector<stream::PartitionRange>& ranges) {
  if (const FileStream* files = job.stream.files(); files != nullptr)
    CheckFits(job, job.schema, source, ranges, files->options.paths.front());
  if (job.stream.own() != nullptr) CheckFits(job, job.schema, source, ranges, job.stream.Describe());
}

void CheckNotEmpty(const Job& job, const std::vector<stream::PartitionRange>& ranges) {
  if (std::ranges::any_of(ranges, [](const auto& range) { return range.begin < range.end; })) return;
  if (const Status good = job.stream.CheckEmpty(); !good.ok()) Throw(good);
}

void CheckReadable(const Job& job) {
  CheckDevices(job);
  (void)stream::MakeDecoder(job.schema);  // has what it needs, such as the secrets of a registry
  const auto ranges_of = [](stream::Source& source) {
    auto ranges = source.Ranges();
    if (!ranges.ok()) Throw(ranges.status());
    return *ranges;
  };
  if (job.evaluate) {
    auto files = stream::OpenFiles(job.EvaluationFiles());
    if (!files.ok()) Throw(files.status());
    CheckFits(job, job.EvaluationSchema(), **files, ranges_of(**files), job.evaluate->paths.front());
  }
  if (job.stream.bots() != nullptr) return;  // they make the topic
  auto source = job.stream.Open();
  if (!source.ok()) Throw(source.status());
  const auto ranges = ranges_of(**source);
  CheckFits(job, **source, ranges);
  CheckNotEmpty(job, ranges);
}

}  // namespace leat::job
