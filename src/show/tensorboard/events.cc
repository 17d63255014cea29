#include "show/tensorboard/events.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/fields/codec.h"
#include "base/text.h"
#include "show/tensorboard/event.pb.h"

namespace leat::tensorboard {
namespace {

namespace pb = leat::tensorboard::v1;

// The attribute in which TensorBoard looks for the shapes of a node's outputs.
constexpr const char* kShapes = "_output_shapes";

void Put(const Histogram& in, pb::Histogram* out) {
  out->set_min(in.min);
  out->set_max(in.max);
  out->set_num(in.count);
  out->set_sum(in.sum);
  out->set_sum_squares(in.sum_squares);
  out->mutable_bucket_limit()->Add(in.limits.begin(), in.limits.end());
  out->mutable_bucket()->Add(in.counts.begin(), in.counts.end());
}

void Put(const Summary& in, pb::Summary* out) {
  const auto add = [&](const std::string& tag, const char* plugin) {
    auto* value = out->add_value();
    value->set_tag(tag);
    if (const auto found = in.descriptions.find(tag); found != in.descriptions.end()) {
      value->mutable_metadata()->mutable_plugin_data()->set_plugin_name(plugin);
      value->mutable_metadata()->set_summary_description(found->second);
    }
    return value;
  };
  for (const auto& [tag, scalar] : in.scalars) add(tag, "scalars")->set_simple_value(scalar);
  for (const auto& [tag, histogram] : in.histograms) Put(histogram, add(tag, "histograms")->mutable_histo());
}

void Put(const Graph& in, pb::GraphDef* out) {
  for (const GraphNode& from : in.nodes) {
    auto* node = out->add_node();
    node->set_name(from.name);
    node->set_op(from.op);
    for (const std::string& input : from.inputs) node->add_input(input);
    node->set_device(from.device);
    for (const auto& [key, text] : from.attributes) {
      auto* attribute = node->add_attr();
      attribute->set_key(key);
      attribute->mutable_value()->set_s(text);
    }
    if (from.shapes.empty()) continue;
    auto* shapes = node->add_attr();
    shapes->set_key(kShapes);
    for (const auto& sizes : from.shapes) {
      auto* shape = shapes->mutable_value()->mutable_list()->add_shape();
      for (const int64_t size : sizes) shape->add_dim()->set_size(size);
    }
  }
  constexpr int kProducer = 22;  // version of graphs whose nodes have these attributes
  out->mutable_versions()->set_producer(kProducer);
}

struct PutWhat {
  pb::Event* out;
  void operator()(const FileVersion& version) const { out->set_file_version(version.text); }
  void operator()(const RunStart&) const { out->mutable_session_log()->set_status(pb::SessionLog::START); }
  void operator()(const Summary& summary) const { Put(summary, out->mutable_summary()); }
  void operator()(const Graph& graph) const {
    pb::GraphDef message;
    Put(graph, &message);
    out->set_graph_def(message.SerializeAsString());
  }
};

constexpr const char* kPrefix = "events.out.tfevents.";

// Files of one process that are made in one second, such as those of the first processes of two containers.
constexpr int kMostNames = 100;

bool HasEventFiles(const std::string& directory) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    if (entry.path().filename().string().starts_with(kPrefix)) return true;
  }
  return false;
}

struct GradientReport {
  Histograms variables;
};
LEAT_FIELDS(GradientReport, (variables, AtMost(1 << 20)));

size_t BytesOf(const Histogram& histogram, const std::string& name) {
  constexpr size_t kHead = 64;
  return kHead + name.size() + histogram.limits.size() * 2 * sizeof(double);
}

// Upper limits of all buckets, ascending.
const std::vector<double>& Limits() {
  static const std::vector<double> limits = [] {
    std::vector<double> positive;
    for (double limit = 1e-12; limit < 1e20; limit *= 1.1) positive.push_back(limit);
    std::vector<double> all;
    for (auto limit = positive.rbegin(); limit != positive.rend(); ++limit) all.push_back(-*limit);
    all.push_back(0);
    all.insert(all.end(), positive.begin(), positive.end());
    all.push_back(std::numeric_limits<double>::max());
    return all;
  }();
  return limits;
}

void AddBucket(double limit, double count, Histogram* histogram) {
  if (count == 0 && histogram->counts.empty()) return;
  if (count == 0 && histogram->counts.back() == 0) {
    histogram->limits.back() = limit;
    return;
  }
  histogram->limits.push_back(limit);
  histogram->counts.push_back(count);
}

void EndBuckets(Histogram* histogram) {
  if (histogram->counts.empty() || histogram->counts.back() > 0) return;
  histogram->limits.pop_back();
  histogram->counts.pop_back();
}

}  // namespace

std::string Encode(const Event& event) {
  pb::Event message;
  message.set_wall_time(event.wall_time);
  message.set_step(event.step);
  std::visit(PutWhat{&message}, event.what);
  return message.SerializeAsString();
}

double WallTime() {
  return Seconds(UnixTime());
}

uint32_t MaskedCrc32c(ByteView bytes) {
  const uint32_t crc = Crc32c(bytes);
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

void AppendRecord(ByteView data, std::string* file) {
  ByteWriter head;
  head.Put(uint64_t{data.size()});
  head.Put(MaskedCrc32c(head.view()));
  ByteWriter tail;
  tail.Put(MaskedCrc32c(data));
  file->append(AsText(head.view())).append(AsText(data)).append(AsText(tail.view()));
}

Result<EventFile> EventFile::Create(const std::string& directory, const std::string& host, bool resumed) {
  if (!resumed && HasEventFiles(directory)) {
    return Status(
        Code::kFailedPrecondition,
        directory + " has the event files of another run; remove them, or choose another directory");
  }
  LEAT_RETURN_IF_ERROR(checkpoint::MakeDirectory(directory));
  const double wall_time = WallTime();
  const std::string base = directory + "/" + kPrefix + Formatted("%010.0f.", wall_time) + host + "." +
                           std::to_string(getpid()) + ".";
  std::string path;
  for (int n = 0; n < kMostNames; ++n) {
    path = base + std::to_string(n);
    if (!checkpoint::Exists(path)) break;
  }
  LEAT_ASSIGN_OR_RETURN(auto file, checkpoint::File::Open(path, O_WRONLY | O_CREAT | O_EXCL));
  EventFile made(std::move(file));
  const Status begun = made.Append({{.wall_time = wall_time, .step = 0, .what = FileVersion{}}});
  if (begun.ok()) return made;
  // It would be taken for another run's.
  std::error_code ignored;
  std::filesystem::remove(path, ignored);
  return begun;
}

Status EventFile::Append(const std::vector<Event>& events) {
  std::string bytes;
  for (const Event& event : events) AppendRecord(AsBytes(Encode(event)), &bytes);
  if (damaged_) LEAT_RETURN_IF_ERROR(file_.Truncate(size_));
  damaged_ = true;
  LEAT_RETURN_IF_ERROR(file_.WriteAt(size_, AsBytes(bytes)));
  damaged_ = false;
  size_ += bytes.size();
  return Status();
}

Status Check(const Histogram& histogram) {
  const auto& limits = histogram.limits;
  if (limits.size() != histogram.counts.size())
    return {Code::kDataLoss, "a histogram has more limits than counts, or fewer"};
  // Also false for NaN.
  const auto ascends = [](double a, double b) { return a < b; };
  if (std::ranges::adjacent_find(limits, std::not_fn(ascends)) != limits.end())
    return {Code::kDataLoss, "the limits of a histogram do not ascend"};
  return {};
}

Bytes EncodeGradients(const std::vector<optim::VariableSpec>& variables,
                      const std::function<std::span<const float>(size_t)>& gradient) {
  uint64_t all = 0;
  for (const auto& variable : variables) all += static_cast<uint64_t>(variable.shape.elements());
  const size_t stride = 1 + static_cast<size_t>(all / kMostGradients);
  GradientReport report;
  size_t bytes = 0;
  std::vector<float> some;
  for (size_t v = 0; v < variables.size(); ++v) {
    if (variables[v].role == optim::VariableRole::kMoments) continue;
    std::span<const float> numbers = gradient(v);
    if (stride > 1) {
      some.clear();
      for (size_t i = 0; i < numbers.size(); i += stride) some.push_back(numbers[i]);
      numbers = some;
    }
    Distribution distribution;
    distribution.Add(numbers);
    if (distribution.count() == 0) continue;
    Histogram histogram = distribution.ToHistogram();
    bytes += BytesOf(histogram, variables[v].name);
    if (bytes > kMostGradientBytes) break;
    report.variables.push_back({variables[v].name, std::move(histogram)});
  }
  return fields::Encode(report);
}

Result<Histograms> DecodeGradients(ByteView bytes, const std::vector<optim::VariableSpec>& variables) {
  LEAT_ASSIGN_OR_RETURN(auto report, fields::Decode<GradientReport>(bytes, "gradients"));
  for (const auto& [name, histogram] : report.variables) {
    if (std::ranges::find(variables, name, &optim::VariableSpec::name) == variables.end())
      return Status(Code::kDataLoss, "gradients of '" + name + "', which is no variable of the job");
  }
  if (report.variables.size() > variables.size())
    return Status(Code::kDataLoss, "gradients of one variable twice");
  return std::move(report.variables);
}

Distribution::Distribution() : buckets_(Limits().size()) {}

void Distribution::Add(std::span<const float> numbers) {
  const auto& limits = Limits();
  for (const float number : numbers) {
    if (!std::isfinite(number)) continue;
    const double x = number;
    // The first limit above it. No float reaches the last limit.
    ++buckets_[static_cast<size_t>(std::ranges::upper_bound(limits, x) - limits.begin())];
    min_ = count_ == 0 ? x : std::min(min_, x);
    max_ = count_ == 0 ? x : std::max(max_, x);
    ++count_;
    sum_ += x;
    sum_squares_ += x * x;
  }
}

Histogram Distribution::ToHistogram() const {
  Histogram made{.min = min_,
                 .max = max_,
                 .count = static_cast<double>(count_),
                 .sum = sum_,
                 .sum_squares = sum_squares_};
  for (size_t i = 0; i < buckets_.size(); ++i)
    AddBucket(Limits()[i], static_cast<double>(buckets_[i]), &made);
  EndBuckets(&made);
  return made;
}

Histogram OfWholeNumbers(std::span<const uint64_t> counts) {
  Histogram made;
  for (size_t i = 0; i < counts.size(); ++i) {
    const auto number = static_cast<double>(i), count = static_cast<double>(counts[i]);
    if (count > 0 && made.count == 0) made.min = number;
    if (count > 0) made.max = number;
    made.count += count;
    made.sum += number * count;
    made.sum_squares += number * number * count;
    AddBucket(number + 0.5, count, &made);
  }
  EndBuckets(&made);
  return made;
}

}  // namespace leat::tensorboard
