#include "job/input/readable.h"

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>

#include "base/exit_status.h"
#include "job/input/csv_files.h"
#include "stream/dead_letters.h"
#include "stream/decode/decoder.h"
#include "stream/decode/text_hint.h"
#include "stream/files.h"

namespace leat::job {
namespace {

// Why the first records are so bad that the job would stop, or that none of them fits, or, when all of them
// are seen, that too many do not fit; empty if they are good. `name`: of the source.
std::string WhyUnfit(const Job& job, const stream::Schema& schema, stream::Source& source,
                     const std::vector<stream::PartitionRange>& ranges, const std::string& name) {
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
        return name + ": its first record names the fields; say header: true, so that they are found by name";
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
  if (!above && (dead < seen || seen == 0)) return "";
  return name + ": " + std::to_string(dead) + " of the first " + std::to_string(seen) +
         " records do not fit the schema: " + first + hint.Describe();
}

std::vector<stream::PartitionRange> RangesOf(stream::Source& source) {
  auto ranges = source.Ranges();
  if (!ranges.ok()) Throw(ranges.status());
  return *ranges;
}

// Files are there to be looked into before the job starts. Of several, those that are bad by themselves are
// named.
void CheckFiles(const Job& job, const stream::Schema& schema, const stream::FileSourceOptions& files,
                stream::Source& source, const std::vector<stream::PartitionRange>& ranges) {
  const size_t others = files.paths.size() - 1;
  std::string why = WhyUnfit(
      job, schema, source, ranges,
      files.paths.front() + (others > 0 ? " and " + std::to_string(others) + " more" : std::string()));
  if (why.empty()) return;
  const size_t alone = others > 0 && files.format != "idx" ? files.paths.size() : 0;
  for (size_t i = 0; i < alone; ++i) {
    stream::FileSourceOptions one = files;
    one.paths = {files.paths[i]};
    one.partitions = 1;
    one.readings = {};
    const auto opened = stream::OpenFiles(one);
    if (!opened.ok()) continue;  // the files may be on the host of a feed
    const std::string its = WhyUnfit(job, schema, **opened, RangesOf(**opened), files.paths[i]);
    if (its.empty()) continue;
    why = its;
    break;
  }
  job.config.At("schema").Fail(why);
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
    CheckFiles(job, job.schema, files->options, source, ranges);
  if (job.stream.own() == nullptr) return;
  const std::string why = WhyUnfit(job, job.schema, source, ranges, job.stream.Describe());
  if (!why.empty()) job.config.At("schema").Fail(why);
}

void CheckNotEmpty(const Job& job, const std::vector<stream::PartitionRange>& ranges) {
  if (std::ranges::any_of(ranges, [](const auto& range) { return range.begin < range.end; })) return;
  if (const Status good = job.stream.CheckEmpty(); !good.ok()) Throw(good);
}

void CheckReadable(const Job& job) {
  CheckDevices(job);
  (void)stream::MakeDecoder(job.schema);  // has what it needs, such as the secrets of a registry
  if (job.evaluate) {
    const stream::FileSourceOptions files = job.EvaluationFiles();
    auto opened = stream::OpenFiles(files);
    if (!opened.ok()) Throw(opened.status());
    CheckFiles(job, job.EvaluationSchema(), files, **opened, RangesOf(**opened));
  }
  if (job.stream.bots() != nullptr) return;  // they make the topic
  auto source = job.stream.Open();
  if (!source.ok()) Throw(source.status());
  const auto ranges = RangesOf(**source);
  CheckFits(job, **source, ranges);
  CheckNotEmpty(job, ranges);
}

}  // namespace leat::job
