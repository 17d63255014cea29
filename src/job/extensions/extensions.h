// Extensions that a program adds to Leat: kinds of layers, sources of events, and placements, by the names
// that job files use. docs/cpp.md shows a program.
//
// Leat's program has none. A program with extensions runs every role of its jobs: a role of another program
// cannot join, since the names are part of the version.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/config/config.h"
#include "compute/nn/layer.h"
#include "protocol/placement.h"
#include "stream/source.h"

namespace leat::job {

struct SourceRequest {
  Config settings;   // the source's entry in the job file
  std::string data;  // base of relative paths; empty: the current directory
};
// Opens a source. Called by the coordinator and the workers, each on its own host, from any thread, and
// several times. Throws std::exception with one line; settings.Fail names the line of the job file. Where it
// throws, the stream is read from a feed.
//
// The records of a partition have the same offsets and bytes wherever and whenever the source is opened with
// the same settings: an offset is all that a journal has of an event.
using SourceFactory = std::function<std::unique_ptr<stream::Source>(const SourceRequest& request)>;

struct Extensions {
  std::string version = {};                // to be changed when one of them computes something else
  std::vector<nn::LayerKind> layers = {};  // model: layers: [NAME: {...}]
  std::map<std::string, SourceFactory> sources = {};                   // stream: {source: {NAME: {...}}}
  std::map<std::string, protocol::PlacementFunction> placements = {};  // cluster: {placement: NAME}

  // The names as the program's version has them: "+layer.gain+source.ticks", or "".
  std::string InVersion() const;
};

// Sets this program's extensions, for all jobs that it reads. Call once, before the first job is read and
// before there are other threads. Throws std::invalid_argument for a name that Leat has itself, or a function
// that is missing.
void UseExtensions(Extensions extensions);
const Extensions& OwnExtensions();

}  // namespace leat::job
