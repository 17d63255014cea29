// TensorBoard's data: histograms and gradients, events as plain structs, of which event.proto has the
// messages, and the event file on disk.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "base/fields/fields.h"
#include "base/status.h"
#include "compute/optim/init.h"
#include "storage/checkpoint/file.h"

namespace leat::tensorboard {

// A distribution. Bucket i has counts[i] values in [limits[i - 1], limits[i]); the first one begins at −∞.
struct Histogram {
  double min = 0, max = 0;
  double count = 0, sum = 0, sum_squares = 0;
  std::vector<double> limits;  // ascending; the last bucket has a limit, too
  std::vector<double> counts;  // as many
  friend bool operator==(const Histogram&, const Histogram&) = default;
};
inline constexpr size_t kMostBuckets = 1 << 14;
LEAT_FIELDS(Histogram, (min), (max), (count), (sum), (sum_squares), (limits, AtMost(kMostBuckets)),
            (counts, AtMost(kMostBuckets)));
// kDataLoss: its limits do not ascend, or it has not as many counts.
Status Check(const Histogram& histogram);

// By the names of variables, or by tag.
struct NamedHistogram {
  std::string name;
  Histogram histogram;
  friend bool operator==(const NamedHistogram&, const NamedHistogram&) = default;
};
LEAT_FIELDS(NamedHistogram, (name, AtMost(1 << 16)), (histogram));
using Histograms = std::vector<NamedHistogram>;

// Values that TensorBoard shows at one step.
struct Summary {
  std::vector<std::pair<std::string, float>> scalars;  // by tag: "learning/loss"
  Histograms histograms;
  std::map<std::string, std::string> descriptions;  // Markdown for some of the tags
  friend bool operator==(const Summary&, const Summary&) = default;
};

struct GraphNode {
  std::string name;                 // "dense1/matmul"; "/" separates scopes
  std::string op;                   // "matmul"
  std::vector<std::string> inputs;  // "node", "node:1" for output 1, "^node" for a control dependency
  std::string device;               // "/job:ps/task:1"
  std::map<std::string, std::string> attributes;
  std::vector<std::vector<int64_t>> shapes;  // shapes of the outputs
  friend bool operator==(const GraphNode&, const GraphNode&) = default;
};
struct Graph {
  std::vector<GraphNode> nodes;
  friend bool operator==(const Graph&, const Graph&) = default;
};

// The first event of a file.
struct FileVersion {
  std::string text = "brain.Event:2";
  friend bool operator==(const FileVersion&, const FileVersion&) = default;
};
// The run starts here, or again: what any of its files has from this step on is obsolete.
struct RunStart {
  friend bool operator==(const RunStart&, const RunStart&) = default;
};

struct Event {
  double wall_time = 0;  // seconds since 1970
  int64_t step = 0;
  std::variant<FileVersion, RunStart, Summary, Graph> what;
  friend bool operator==(const Event&, const Event&) = default;
};

// As the data of a record. Texts other than the values of attributes are UTF-8.
std::string Encode(const Event& event);

// Seconds since 1970, for Event::wall_time.
double WallTime();

uint32_t MaskedCrc32c(ByteView bytes);
// Appends a record to the bytes of a file.
void AppendRecord(ByteView data, std::string* file);

// An event file on disk, in TensorFlow's TFRecord format, that events are appended to.
//
//   file   = record*
//   record = length:u64 checksum(length):u32 data checksum(data):u32      little-endian
//
// A checksum is the CRC-32C of the bytes, rotated right by 15 bits, plus 0xa282ead8: a file that contains
// checksums of its own parts stays well distributed.
//
// Not thread-safe; every call may block on the disk.
class EventFile {
 public:
  // Makes the directory if it does not exist. kFailedPrecondition if it has files of another run, unless this
  // one is `resumed`. TensorBoard reads the files of a directory in the order of their names, which begin
  // with the time. The first event is in the file when this returns.
  static Result<EventFile> Create(const std::string& directory, const std::string& host, bool resumed);
  // A failure leaves none of these events in the file, as far as the disk allows; later ones may succeed.
  Status Append(const std::vector<Event>& events);
  const std::string& path() const { return file_.path(); }

 private:
  explicit EventFile(checkpoint::File file) : file_(std::move(file)) {}
  checkpoint::File file_;
  uint64_t size_ = 0;     // size of the whole records
  bool damaged_ = false;  // bytes of a broken record may follow
};

// ---- gradients: the distribution of each variable's, as a worker sends it
// Limit of the numbers that are read of all gradients, so that a worker is done in some milliseconds. If
// there are more, every second, third or n-th number is read.
inline constexpr uint64_t kMostGradients = 4 << 20;
inline constexpr size_t kMostGradientBytes = 512 << 10;

// `gradient`: that of the variable with this index. Moments are left out, and so are the last variables if
// the rest takes kMostGradientBytes.
Bytes EncodeGradients(const std::vector<optim::VariableSpec>& variables,
                      const std::function<std::span<const float>(size_t)>& gradient);
// By the names of the variables. kDataLoss if it is not from EncodeGradients for these variables.
Result<Histograms> DecodeGradients(ByteView bytes, const std::vector<optim::VariableSpec>& variables);

// Collects numbers in the buckets that TensorFlow uses: each is a tenth wider than the one before it, from
// 1e-12 to 1e20, and the same below zero. Not thread-safe.
class Distribution {
 public:
  Distribution();
  // Numbers that are not finite are left out.
  void Add(std::span<const float> numbers);
  uint64_t count() const { return count_; }
  // Empty buckets before the first number and behind the last are left out. Where several empty ones follow
  // each other, only the last of them is listed.
  Histogram ToHistogram() const;

 private:
  std::vector<uint64_t> buckets_;
  uint64_t count_ = 0;
  double min_ = 0, max_ = 0, sum_ = 0, sum_squares_ = 0;
};

// counts[i] times the whole number i. No bucket if all are 0.
Histogram OfWholeNumbers(std::span<const uint64_t> counts);

}  // namespace leat::tensorboard
