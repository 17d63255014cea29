#include "stream/inspect/peek.h"

#include <algorithm>
#include <ctime>
#include <span>
#include <string_view>
#include <utility>

#include "base/encoding/printable.h"
#include "base/json/text.h"
#include "base/text.h"
#include "stream/decode/text.h"

namespace leat::stream {
namespace {

using Json = nlohmann::ordered_json;

// Values have so much room side by side; longer ones have a line of their own.
constexpr size_t kCell = 12;
// A longer key is cut.
constexpr size_t kKey = 12;
constexpr size_t kTime = 24;
// Features of a field that are shown one by one.
constexpr size_t kListedByPeek = 8;

// The characters of a text, those that control a terminal escaped.
std::vector<std::string> Characters(std::string_view text) {
  std::vector<std::string> characters;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      characters.push_back("\\x" + ToHex({&c, 1}));
    } else if ((byte & 0xc0) != 0x80 || characters.empty()) {
      characters.emplace_back(1, c);
    } else if (characters.back() == "\xc2" && byte < 0xa0) {
      characters.back() = "\\x" + ToHex({&c, 1});
    } else {
      characters.back() += c;
    }
  }
  return characters;
}

// Columns of the terminal that an element of Characters takes.
size_t Columns(const std::string& character) {
  return character.size() == 4 && character[0] == '\\' ? 4 : 1;
}

size_t Width(std::string_view text) {
  return static_cast<size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

std::string Padded(std::string text, size_t width) {
  const size_t has = Width(text);
  return text + std::string(width > has ? width - has : 0, ' ');
}

std::string PeekNumber(float x) {
  return Formatted("%.5g", static_cast<double>(x));
}

using Value = RecordPrinter::Value;

std::string ListText(std::span<const float> values) {
  if (values.size() <= kListedByPeek) {
    std::string text;
    for (const float x : values) text += (text.empty() ? "" : " ") + PeekNumber(x);
    return text;
  }
  const auto [least, most] = std::ranges::minmax(values);
  return StrCat(values.size(), " numbers from ", PeekNumber(least), " to ", PeekNumber(most));
}

// The category whose feature is 1; values.size() for none of them.
size_t Hot(std::span<const float> values) {
  return static_cast<size_t>(std::ranges::find_if(values, [](float x) { return x != 0; }) - values.begin());
}

void AppendFeatures(const Field& field, std::span<const float> values, std::vector<Value>* out) {
  if (field.type == Field::Type::kCategory) {
    const size_t hot = Hot(values);
    if (field.values.empty()) {
      out->push_back({field.name, StrCat("bucket ", hot), hot});
    } else if (hot < field.values.size()) {
      out->push_back({field.name, field.values[hot], field.values[hot]});
    } else {
      out->push_back({field.name, "(no value)", nullptr});
    }
  } else if (values.size() == 1 && !field.list) {
    out->push_back({field.name, PeekNumber(values[0]), values[0]});
  } else if (values.size() == 2 && field.period > 0) {
    out->push_back({field.name + ".sin", PeekNumber(values[0]), values[0]});
    out->push_back({field.name + ".cos", PeekNumber(values[1]), values[1]});
  } else {
    out->push_back({field.name, ListText(values), Json(std::vector<float>(values.begin(), values.end()))});
  }
}

void AppendLabels(const Field& field, std::span<const float> values, std::vector<Value>* out) {
  if (values.size() > 1) {
    out->push_back({field.name, ListText(values), Json(std::vector<float>(values.begin(), values.end()))});
    return;
  }
  std::string text = PeekNumber(values[0]);
  if (field.type == Field::Type::kCategory) text += " (" + field.values[static_cast<size_t>(values[0])] + ")";
  out->push_back({field.name, text, values[0]});
}

// Values side by side in columns, as many as fit, and then those that are too long for a column.
void AppendGrid(const std::vector<Value>& values, std::string_view indent, size_t width, std::string* out) {
  size_t name = 0;
  for (const Value& value : values) name = std::max(name, Width(value.name));
  const size_t cell = name + 1 + kCell + 2;
  const size_t columns = std::max<size_t>(1, (width - std::min(width, indent.size())) / cell);
  std::vector<std::string> lines;
  size_t in_line = columns;
  for (const Value& value : values) {
    if (Width(value.text) > kCell) continue;
    if (in_line++ == columns) {
      lines.emplace_back(indent);
      in_line = 1;
    }
    lines.back() += Padded(value.name, name) + " " + Padded(value.text, kCell) + "  ";
  }
  for (const Value& value : values) {
    if (Width(value.text) > kCell)
      lines.push_back(std::string(indent) + Padded(value.name, name) + " " + value.text);
  }
  for (std::string& line : lines) {
    line.erase(line.find_last_not_of(' ') + 1);
    *out += line + "\n";
  }
}

Json Object(const std::vector<Value>& values) {
  Json object = Json::object();
  for (const Value& value : values) object[value.name] = value.json;
  return object;
}

std::string KeyAndTime(const std::string& key, const std::string& time) {
  return Padded(key, kKey) + "  " + Padded(time, kTime) + "  ";
}

void PutBytes(const std::string& name, std::string_view bytes, Json* json) {
  if (ValidUtf8(bytes)) {
    (*json)[name] = bytes;
  } else {
    (*json)[name + "_hex"] = ToHex(bytes);
  }
}

// How many records of each range are taken, so that they are `count` in all: an equal share of each, the rest
// from the first ones, and more of the others where a range is too short.
std::vector<uint64_t> Spread(const std::vector<PartitionRange>& ranges, uint64_t count) {
  std::vector<uint64_t> counts(ranges.size());
  const auto room = [&](size_t i) { return ranges[i].end - ranges[i].begin - counts[i]; };
  while (count > 0) {
    uint64_t open = 0;
    for (size_t i = 0; i < ranges.size(); ++i) open += room(i) > 0;
    if (open == 0) break;
    const uint64_t share = std::max<uint64_t>(1, count / open);
    for (size_t i = 0; i < ranges.size() && count > 0; ++i) {
      const uint64_t taken = std::min({share, room(i), count});
      counts[i] += taken;
      count -= taken;
    }
  }
  return counts;
}

}  // namespace

Result<std::vector<PartitionRange>> PlanPeek(const std::vector<PartitionRange>& topic,
                                             const PeekOptions& options) {
  std::vector<PartitionRange> chosen;
  for (const PartitionRange& range : topic) {
    if (!options.partition || range.partition == *options.partition) chosen.push_back(range);
  }
  if (chosen.empty()) {
    return Status(Code::kNotFound, StrCat("there is no partition ", options.partition.value_or(0),
                                          "; there are ", topic.size()));
  }
  if (options.offset) {
    const uint64_t from = *options.offset;
    if (std::ranges::none_of(chosen, [&](const auto& r) { return r.begin <= from && from < r.end; })) {
      std::string has;
      for (const auto& r : chosen) {
        has += StrCat(has.empty() ? "partition " : ", partition ", r.partition, " has [", r.begin, ", ",
                      r.end, ")");
      }
      return Status(Code::kNotFound, StrCat("there is no offset ", from, ": ", has));
    }
    for (auto& r : chosen) r.begin = std::clamp(from, r.begin, r.end);
  }
  const std::vector<uint64_t> counts = Spread(chosen, options.count);
  for (size_t i = 0; i < chosen.size(); ++i) {
    if (options.latest) {
      chosen[i].begin = chosen[i].end - counts[i];
    } else {
      chosen[i].end = chosen[i].begin + counts[i];
    }
  }
  std::erase_if(chosen, [](const auto& r) { return r.begin == r.end; });
  return chosen;
}

std::string ShownRecord(ByteView record, size_t width) {
  const std::string_view text = AsText(record);
  const bool readable = ValidUtf8(text);
  // Cut before they are all converted: a record can be large.
  std::string_view kept = text.substr(0, 4 * width + 4);
  while (readable && kept.size() < text.size() && (text[kept.size()] & 0xc0) == 0x80) kept.remove_suffix(1);
  std::vector<std::string> characters = Characters(readable ? std::string(kept) : "0x" + ToHex(kept));
  size_t all = 0;
  for (const auto& character : characters) all += Columns(character);
  std::string shown;
  size_t used = 0;
  for (const std::string& character : characters) {
    used += Columns(character);
    if (all > width && used + 1 > width) return shown + "…";
    shown += character;
  }
  return shown;
}

std::string ShownTime(int64_t ms) {
  constexpr int64_t kYear0 = -62'167'219'200'000, kYear10000 = 253'402'300'800'000;
  if (ms < kYear0 || ms >= kYear10000) return std::to_string(ms);
  const int64_t rest = (ms % 1000 + 1000) % 1000;
  const auto seconds = static_cast<time_t>((ms - rest) / 1000);
  std::tm time{};
  gmtime_r(&seconds, &time);
  char text[40];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &time);
  return text + Formatted(".%03dZ", static_cast<int>(rest));
}

RecordPrinter::RecordPrinter(const Schema* schema, const Options& options) : options_(options) {
  if (schema == nullptr) return;
  schema_ = schema->WithoutLateLabels();
  for (const Field& field : schema->fields) {
    if (field.is_late()) late_.push_back(field.name);
  }
  decoder_ = MakeDecoder(*schema_);
}

std::vector<Attribute> RecordPrinter::wanted() const {
  std::vector<Attribute> wanted;
  if (schema_) wanted = schema_->attributes();
  for (const auto kind : {Attribute::Kind::kKey, Attribute::Kind::kTimestamp}) {
    if (IndexOf(wanted, kind) == wanted.size()) wanted.push_back({kind, ""});
  }
  return wanted;
}

void RecordPrinter::Print(const RecordBatch& batch, std::string* out) {
  key_ = IndexOf(batch.wanted, Attribute::Kind::kKey);
  time_ = IndexOf(batch.wanted, Attribute::Kind::kTimestamp);
  rows_.clear();
  if (decoder_) decoder_->Decode(batch, &rows_);
  size_t row = 0, dead = 0;
  for (size_t i = 0; i < batch.size(); ++i) {
    if (batch.IsAbsent(i)) continue;
    const Decoded decoded = Take(batch.first_offset + i, i, &row, &dead);
    options_.json ? PrintJson(batch, i, decoded, out) : PrintText(batch, i, decoded, out);
  }
}

std::string RecordPrinter::KeyOf(const RecordBatch& batch, size_t record) const {
  const auto key = batch.Value(key_, record);
  return key ? ShownRecord(*key, kKey) : "";
}

std::string RecordPrinter::TimeText(const RecordBatch& batch, size_t record) const {
  const auto ms = TimeOf(batch.Value(time_, record));
  return ms ? ShownTime(*ms) : "";
}

// The decoder's result for the record.
RecordPrinter::Decoded RecordPrinter::Take(uint64_t offset, size_t record, size_t* row, size_t* dead) const {
  Decoded decoded;
  if (!decoder_) return decoded;
  if (*dead < rows_.dead.size() && rows_.dead[*dead].offset == offset) {
    decoded.dead = rows_.dead[(*dead)++].reason;
    return decoded;
  }
  if (*row >= rows_.rows || rows_.index[*row] != record) return decoded;
  std::span<const float> features(rows_.features), labels(rows_.labels);
  features = features.subspan(*row * schema_->features(), schema_->features());
  labels = labels.subspan(*row * schema_->labels(), schema_->labels());
  for (const Field& field : schema_->fields) {
    if (const uint32_t count = field.features(); count > 0) {
      AppendFeatures(field, features.first(count), &decoded.features);
      features = features.subspan(count);
    }
    if (const uint32_t count = field.labels(); count > 0) {
      AppendLabels(field, labels.first(count), &decoded.labels);
      labels = labels.subspan(count);
    }
    if (field.role == Role::kTruth) {
      const float truth = rows_.truth[*row];
      decoded.truth.push_back({field.name, PeekNumber(truth), truth});
    }
  }
  ++*row;
  return decoded;
}

void RecordPrinter::PrintText(const RecordBatch& batch, size_t record, const Decoded& decoded,
                              std::string* out) {
  const std::string partition = std::to_string(batch.partition);
  const std::string offset = std::to_string(batch.first_offset + record);
  if (!decoder_) {
    const int digits = std::max(6, static_cast<int>(std::to_string(options_.last_offset).size()));
    if (!std::exchange(began_, true)) {
      columns_ = !batch.attributes.empty();
      *out += Formatted("partition  %*s  ", digits, "offset") + (columns_ ? KeyAndTime("key", "time") : "") +
              "record\n";
    }
    std::string line = Formatted("%9s  %*s  ", partition.c_str(), digits, offset.c_str());
    if (columns_) line += KeyAndTime(KeyOf(batch, record), TimeText(batch, record));
    *out += line + ShownRecord(batch[record], Left(Width(line))) + "\n";
    return;
  }
  if (std::exchange(began_, true)) *out += "\n";
  const size_t bytes = batch[record].size();
  *out += "partition " + partition + "  offset " + offset;
  if (const std::string key = KeyOf(batch, record); !key.empty()) *out += "  key " + key;
  if (const std::string time = TimeText(batch, record); !time.empty()) *out += "  " + time;
  *out += StrCat("  ", bytes, bytes == 1 ? " byte\n" : " bytes\n");
  *out += "  " + ShownRecord(batch[record], Left(2)) + "\n";
  if (!decoded.dead.empty()) {
    *out += "  dead letter: " + decoded.dead + "\n";
    return;
  }
  AppendGrid(decoded.features, "    ", options_.width, out);
  for (const Value& value : decoded.labels) *out += "  label " + value.name + " " + value.text + "\n";
  for (const std::string& name : late_) *out += "  label " + name + " comes later\n";
  for (const Value& value : decoded.truth) *out += "  truth " + value.name + " " + value.text + "\n";
}

size_t RecordPrinter::Left(size_t used) const {
  return std::max<size_t>(20, options_.width - std::min(options_.width, used));
}

void RecordPrinter::PrintJson(const RecordBatch& batch, size_t record, const Decoded& decoded,
                              std::string* out) {
  const std::string_view text = AsText(batch[record]);
  Json json = {{"partition", batch.partition}, {"offset", batch.first_offset + record}};
  if (const auto key = batch.Value(key_, record)) PutBytes("key", AsText(*key), &json);
  if (const std::string time = TimeText(batch, record); !time.empty()) json["time"] = time;
  PutBytes("record", text, &json);
  if (!decoded.dead.empty()) {
    json["dead_letter"] = decoded.dead;
  } else if (decoder_) {
    json["features"] = Object(decoded.features);
    if (!decoded.labels.empty()) json["labels"] = Object(decoded.labels);
    if (!decoded.truth.empty()) json["truth"] = Object(decoded.truth);
  }
  *out += JsonText(json) + "\n";
}

}  // namespace leat::stream
