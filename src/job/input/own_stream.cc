// `stream: {source: …}`: a source of the program's own (job/extensions/extensions.h).
#include <exception>
#include <stdexcept>
#include <utility>

#include "job/extensions/extensions.h"
#include "job/input/stream_spec.h"

namespace leat::job {
namespace {

class OwnStream final : public StreamSpec {
 public:
  OwnStream(std::string name, SourceRequest request, SourceFactory open)
      : name_(std::move(name)), request_(std::move(request)), open_(std::move(open)) {}

  const StreamTraits& traits() const override { return OwnKind().traits; }
  std::string Describe() const override { return "source '" + name_ + "'"; }
  // The number of partitions follows from the settings.
  SourceIdentity Identity() const override {
    return {.topic = "source " + name_ + ": " + request_.settings.ToYaml(), .partitions = 0, .windows = ""};
  }
  // Unknown: the program alone can tell.
  Result<std::vector<std::string>> Identify() const override { return std::vector<std::string>(); }
  Result<std::unique_ptr<stream::Source>> Open() const override {
    try {
      auto source = open_(request_);
      if (source != nullptr) return source;
      return Status(Code::kInvalidArgument, Describe() + ": its function returned none");
    } catch (const std::invalid_argument& error) {
      return Status(Code::kInvalidArgument, error.what());  // names the place
    } catch (const std::exception& error) {
      return Status(Code::kUnavailable, Describe() + ": " + error.what());
    }
  }

 private:
  std::string name_;
  SourceRequest request_;
  SourceFactory open_;
};

AnyStream ReadOwnStream(const Config& config, const StreamPaths& paths) {
  const Config source = config.At("source");
  const auto& sources = OwnExtensions().sources;
  if (!source.IsScalar() && (!source.IsMap() || source.Keys().size() != 1))
    source.Fail("source is the name of one of the program's own, with its settings: {ticks: {rate: 100}}");
  const std::string name = source.IsScalar() ? source.String() : source.Keys()[0];
  std::vector<std::string> names;
  for (const auto& [known, open] : sources) names.push_back(known);
  const Config place = source.IsScalar() ? source : source.At(name);
  if (names.empty())
    place.Fail("unknown source '" + name +
               "': this program has none of its own; run the one that defines it");
  const auto at = sources.find(name);
  if (at == sources.end()) place.FailUnknown("source", name, names);
  const bool bare = source.IsScalar() || place.IsNull();
  return OwnStream(name, {bare ? place.WithoutSettings() : place, paths.data}, at->second);
}

}  // namespace

const StreamKind& OwnKind() {
  static const StreamKind kKind = {.name = "a source of its own",
                                   .keys = {"source"},
                                   .read = ReadOwnStream,
                                   .traits = {.previewed = true}};
  return kKind;
}

}  // namespace leat::job
