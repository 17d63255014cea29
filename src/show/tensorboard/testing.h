// For tests: readers of event files. The program only writes them.
#pragma once

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "show/tensorboard/event.pb.h"
#include "show/tensorboard/events.h"

namespace leat::tensorboard {

namespace pb = leat::tensorboard::v1;

// The records of a file. kDataLoss, with a message that begins with `path`, at a checksum that does not
// match, and at a record that is cut off, such as one that is still being written.
inline Result<std::vector<ByteView>> ReadRecords(ByteView file, const std::string& path) {
  std::vector<ByteView> records;
  ByteReader in(file);
  while (in.remaining() > 0) {
    const std::string where = path + ": record " + std::to_string(records.size());
    const ByteView length = in.GetRaw(sizeof(uint64_t));
    const auto length_checksum = in.Get<uint32_t>();
    if (!in.ok()) return Status(Code::kDataLoss, where + " is cut off");
    if (length_checksum != MaskedCrc32c(length))
      return Status(Code::kDataLoss, where + ": the checksum of its length is wrong");
    const ByteView data = in.GetRaw(ByteReader(length).Get<uint64_t>());
    const auto data_checksum = in.Get<uint32_t>();
    if (!in.ok()) return Status(Code::kDataLoss, where + " is cut off");
    if (data_checksum != MaskedCrc32c(data))
      return Status(Code::kDataLoss, where + ": the checksum of its data is wrong");
    records.push_back(data);
  }
  return records;
}

inline Status Damaged(const std::string& what) {
  return {Code::kDataLoss, what};
}

inline Result<Histogram> Take(const pb::Histogram& in) {
  Histogram out{
      .min = in.min(), .max = in.max(), .count = in.num(), .sum = in.sum(), .sum_squares = in.sum_squares()};
  out.limits.assign(in.bucket_limit().begin(), in.bucket_limit().end());
  out.counts.assign(in.bucket().begin(), in.bucket().end());
  if (const Status bad = Check(out); !bad.ok()) return bad;
  return out;
}

inline Result<Summary> Take(const pb::Summary& in) {
  Summary out;
  for (const auto& value : in.value()) {
    if (value.value_case() == pb::Summary::Value::kSimpleValue) {
      out.scalars.emplace_back(value.tag(), value.simple_value());
    } else if (value.value_case() == pb::Summary::Value::kHisto) {
      LEAT_ASSIGN_OR_RETURN(auto histogram, Take(value.histo()));
      out.histograms.push_back({value.tag(), std::move(histogram)});
    } else {
      return Damaged("'" + value.tag() + "' is neither a scalar nor a histogram");
    }
    if (value.has_metadata()) out.descriptions[value.tag()] = value.metadata().summary_description();
  }
  return out;
}

inline Result<Graph> TakeGraph(const std::string& bytes) {
  pb::GraphDef in;
  if (!in.ParseFromString(bytes)) return Damaged("its graph is not a GraphDef");
  Graph out;
  for (const auto& from : in.node()) {
    GraphNode node{.name = from.name(), .op = from.op(), .device = from.device()};
    node.inputs.assign(from.input().begin(), from.input().end());
    for (const auto& attribute : from.attr()) {
      if (attribute.key() != "_output_shapes") {
        node.attributes[attribute.key()] = attribute.value().s();
        continue;
      }
      for (const auto& shape : attribute.value().list().shape()) {
        auto& sizes = node.shapes.emplace_back();
        for (const auto& dim : shape.dim()) sizes.push_back(dim.size());
      }
    }
    out.nodes.push_back(std::move(node));
  }
  return out;
}

// kDataLoss if it is none of the events that a run has, or contradicts itself.
inline Result<Event> Decode(ByteView data) {
  pb::Event in;
  if (data.size() > std::numeric_limits<int>::max() ||
      !in.ParseFromArray(data.data(), static_cast<int>(data.size())))
    return Damaged("is not an Event");
  Event out{.wall_time = in.wall_time(), .step = in.step(), .what = {}};
  switch (in.what_case()) {
    case pb::Event::kFileVersion:
      out.what = FileVersion{in.file_version()};
      return out;
    case pb::Event::kSessionLog:
      if (in.session_log().status() != pb::SessionLog::START) break;
      out.what = RunStart{};
      return out;
    case pb::Event::kSummary: {
      LEAT_ASSIGN_OR_RETURN(out.what, Take(in.summary()));
      return out;
    }
    case pb::Event::kGraphDef: {
      LEAT_ASSIGN_OR_RETURN(out.what, TakeGraph(in.graph_def()));
      return out;
    }
    case pb::Event::WHAT_NOT_SET:
      break;
  }
  return Damaged("is none of the events that a run has");
}

// All events of a file; kDataLoss at the first record that is damaged or no event. `path` is for messages.
inline Result<std::vector<Event>> DecodeFile(ByteView file, const std::string& path) {
  LEAT_ASSIGN_OR_RETURN(const auto records, ReadRecords(file, path));
  std::vector<Event> events;
  for (const ByteView record : records) {
    auto event = Decode(record);
    if (!event.ok()) return event.status().With(path + ": record " + std::to_string(events.size()));
    events.push_back(std::move(*event));
  }
  return events;
}

}  // namespace leat::tensorboard
