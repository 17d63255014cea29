#include "job/input/input_files.h"

#include <algorithm>
#include <stdexcept>

#include "base/exit_status.h"
#include "stream/dead_letters.h"
#include "stream/decode/decoder.h"
#include "stream/decode/row_writer.h"
#include "stream/decode/text_hint.h"

namespace leat::job {
namespace {

// The categories none of whose values has occurred: their features are always 0.
class UnseenCategories {
 public:
  explicit UnseenCategories(const stream::Schema& schema) : schema_(schema) {
    uint32_t first = 0;
    for (size_t i = 0; i < schema.fields.size(); ++i) {
      const stream::Field& field = schema.fields[i];
      if (field.type == stream::Field::Type::kCategory && !field.values.empty() && field.features() > 0)
        unseen_.push_back({i, first});
      first += field.features();
    }
  }

  void See(const stream::DecodedRows& rows) {
    std::erase_if(unseen_, [&](const Category& category) {
      for (size_t row = 0; row < rows.rows; ++row) {
        const auto* const at = rows.features.data() + row * schema_.features() + category.first;
        if (std::any_of(at, at + schema_.fields[category.field].features(), [](float x) { return x != 0; }))
          return true;
      }
      return false;
    });
  }

  // A line for each that has other values in these records. `where`: of all records seen.
  void Warn(const stream::RecordBatch& records, const std::string& where,
            std::vector<std::string>* warnings) const {
    for (const Category& category : unseen_) {
      const stream::Field& field = schema_.fields[category.field];
      const std::string other = OtherValue(records, category.field);
      if (!other.empty()) {
        warnings->push_back(field.where + ": none of the values of '" + field.name + "' occurs in " + where +
                            "; they have " + other + ", for example");
      }
    }
  }

 private:
  struct Category {
    size_t field;
    uint32_t first;  // column of its first feature
  };

  // A value that occurs, in quotes: as a label, it makes a dead letter.
  std::string OtherValue(const stream::RecordBatch& records, size_t category) const {
    stream::Schema schema = schema_;
    for (stream::Field& field : schema.fields) field.role = stream::Role::kIgnore;
    stream::Field& label = schema.fields[category];
    label.role = stream::Role::kLabel;
    label.fallback.reset();
    stream::DecodedRows rows;
    stream::MakeDecoder(schema.WithoutLateLabels())->Decode(records, &rows);
    for (const auto& letter : rows.dead) {
      std::string_view value = letter.reason;
      if (!value.ends_with(stream::kNotAmongValues)) continue;
      value.remove_suffix(stream::kNotAmongValues.size());
      value.remove_prefix(label.path_text().size() + 2);
      if (value != "''") return std::string(value);
    }
    return "";
  }

  const stream::Schema& schema_;
  std::vector<Category> unseen_;
};

// Why the first records are so bad that the job would stop, or that none of them fits, or, when all of them
// are seen, that too many do not fit; empty if they are good. `name`: of the source.
std::string WhyUnfit(const Job& job, const stream::Schema& schema, stream::Source& source,
                     const std::vector<stream::PartitionRange>& ranges, const std::string& name,
                     std::vector<std::string>* warnings) {
  const uint64_t share = std::max<uint64_t>(1, (1 << 22) / (schema.features() + schema.labels()));
  const auto decoder = stream::MakeDecoder(schema);
  stream::DeadLetterRate rate(job.dead_letter_rate);
  stream::TextHint hint(schema.format == stream::Schema::Format::kCsv);
  UnseenCategories unseen(schema);
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
      unseen.See(rows);
      for (const auto& letter : rows.dead) hint.See(letter);
      dead += rows.dead.size();
      hint.SeeFitting(rows.rows);
      rate.Count(end - at, rows.dead.size());
    }
  }
  const bool whole = ends && seen == all;
  const bool above =
      whole ? stream::DeadLetterRate::Above(job.dead_letter_rate, seen, dead) : rate.exceeded();
  if (!above && (dead < seen || seen == 0)) {
    if (dead < seen)
      unseen.Warn(records, "the first " + std::to_string(seen) + " records of " + name, warnings);
    return "";
  }
  return name + ": " + std::to_string(dead) + " of the first " + std::to_string(seen) +
         " records do not fit the schema: " + first + hint.Describe();
}

std::vector<stream::PartitionRange> RangesOf(stream::Source& source) {
  return OrThrow(source.Ranges());
}

// Looks into the files before the job starts. If several files do not fit, those that are bad by themselves
// are named.
void CheckFiles(const Job& job, const stream::Schema& schema, const stream::FileSourceOptions& files,
                stream::Source& source, const std::vector<stream::PartitionRange>& ranges,
                std::vector<std::string>* warnings) {
  const size_t others = files.paths.size() - 1;
  std::string why = WhyUnfit(
      job, schema, source, ranges,
      files.paths.front() + (others > 0 ? " and " + std::to_string(others) + " more" : std::string()),
      warnings);
  if (why.empty()) return;
  const size_t alone = others > 0 && files.format != "idx" ? files.paths.size() : 0;
  for (size_t i = 0; i < alone; ++i) {
    stream::FileSourceOptions one = files;
    one.paths = {files.paths[i]};
    one.partitions = 1;
    one.readings = {};
    const auto opened = stream::OpenFiles(one);
    if (!opened.ok()) continue;  // the files may be on the host of a feed
    const std::string unfit = WhyUnfit(job, schema, **opened, RangesOf(**opened), files.paths[i], warnings);
    if (unfit.empty()) continue;
    why = unfit;
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

std::vector<std::string> CheckFits(const Job& job, stream::Source& source,
                                   const std::vector<stream::PartitionRange>& ranges) {
  std::vector<std::string> warnings;
  if (const stream::FileSourceOptions* files = job.stream->files(); files != nullptr)
    CheckFiles(job, job.schema, *files, source, ranges, &warnings);
  if (!job.stream->traits().previewed) return warnings;
  const std::string why = WhyUnfit(job, job.schema, source, ranges, job.stream->Describe(), &warnings);
  if (!why.empty()) job.config.At("schema").Fail(why);
  return warnings;
}

void CheckNotEmpty(const Job& job, const std::vector<stream::PartitionRange>& ranges) {
  if (std::ranges::any_of(ranges, [](const auto& range) { return range.begin < range.end; })) return;
  if (const Status good = job.stream->CheckEmpty(); !good.ok()) Throw(good);
}

std::vector<std::string> CheckReadable(const Job& job) {
  CheckDevices(job);
  (void)stream::MakeDecoder(job.schema);  // has what it needs, such as the secrets of a registry
  std::vector<std::string> warnings;
  if (job.evaluate) {
    const stream::FileSourceOptions files = job.EvaluationFiles();
    auto opened = OrThrow(stream::OpenFiles(files));
    CheckFiles(job, job.EvaluationSchema(), files, *opened, RangesOf(*opened), &warnings);
  }
  if (job.stream->bots() != nullptr) return warnings;  // they make the topic
  auto source = job.stream->Open();
  if (!source.ok()) Throw(source.status());
  const auto ranges = RangesOf(**source);
  const auto others = CheckFits(job, **source, ranges);
  warnings.insert(warnings.end(), others.begin(), others.end());
  CheckNotEmpty(job, ranges);
  return warnings;
}

}  // namespace leat::job
