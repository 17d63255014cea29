#include "stream/inspect/inspect.h"

#include <cmath>
#include <stdexcept>

#include "base/text.h"
#include "stream/decode/decoder.h"
#include "stream/decode/row_writer.h"

namespace leat::stream {
namespace {

// Categories with more values are hashed.
constexpr size_t kListedInProposal = 50;
// Numbers with more values are not classes, unless the user says so.
constexpr size_t kClasses = 20;
// Records without a number become dead letters; a larger share of them is too much.
constexpr double kMissingShare = 0.05;
// A value that a larger share of the records lacks is ignored; with a smaller one it has a default. Texts of
// CSV need none: a missing one is a category of its own.
constexpr double kAbsentShare = 0.5;
// A job with more dead letters ends, unless its `max_dead_letter_rate` is another one.
constexpr double kAllowedShare = 0.1;
// In a column of numbers, the share of texts that are treated as missing values.
constexpr double kOddShare = 0.05;
// The end of a remark about lost records.
constexpr std::string_view kDead = ": dead letters";
constexpr size_t kMaxName = 128;  // allowed in job files

std::string Count(uint64_t n) {
  std::string digits = std::to_string(n);
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<size_t>(at), ",");
  return digits;
}

// With enough digits for 1/1000 of `spread`.
std::string NumberText(double x, double spread = 0) {
  constexpr int kUsual = 6, kAll = 17;  // digits
  int digits = kUsual;
  if (spread > 0 && std::abs(x) > spread)
    digits = std::clamp(static_cast<int>(std::ceil(std::log10(std::abs(x) / spread))) + 4, kUsual, kAll);
  return Formatted("%.*g", digits, x);
}

// How a column would be read.
struct Proposal {
  enum class Kind { kNumber, kCategory, kHashed, kIgnored } kind = Kind::kIgnored;
  std::string settings;  // "type: number, mean: 3"
  std::vector<std::string> remarks;
  uint64_t lost = 0;  // records that would become dead letters

  // An empty remark is none.
  void Remark(const std::string& text) {
    if (!text.empty()) remarks.push_back(text);
  }
};

// Whether so many are more than a share of all.
bool Exceed(uint64_t count, double share, uint64_t all) {
  return static_cast<double>(count) > share * static_cast<double>(all);
}

bool MostlyNumbers(const Column& column) {
  return column.numbers > 0 && !column.codes &&
         !Exceed(column.values - column.numbers, kOddShare, column.values);
}

std::vector<std::string> ValuesOf(const Column& column) {
  std::vector<std::string> values;
  for (const auto& [text, count] : column.texts) values.push_back(text);
  if (column.is_number())
    std::ranges::sort(values, {}, [](const std::string& text) { return std::strtod(text.c_str(), nullptr); });
  return values;
}

std::string ListOf(const std::vector<std::string>& values) {
  return "[" + Joined(values, ", ", YamlText) + "]";
}

// True if its values could be classes: few, and all known.
bool HasClasses(const Column& column) {
  return column.distinct >= 2 && column.distinct <= kClasses && column.texts.size() == column.distinct &&
         column.nested == 0;
}

// True if it would be predicted as a class rather than as a number.
bool IsClass(const Column& column) {
  return HasClasses(column) || !MostlyNumbers(column);
}

// Whole numbers from 0 on without gaps: usable as classes directly.
bool CountsClasses(const Column& column) {
  return HasClasses(column) && column.is_number() && column.whole && column.min == 0 &&
         column.max == static_cast<double>(column.distinct - 1);
}

Proposal Ignored(const std::string& why) {
  return {.kind = Proposal::Kind::kIgnored, .settings = "role: ignore", .remarks = {why}};
}

// "2 texts such as 'x'", of those among numbers.
std::string OddTexts(const Column& column) {
  const uint64_t odd = column.values - column.numbers;
  return Count(odd) + (odd == 1 ? " text" : " texts") + " such as " + Quoted(column.text);
}

Proposal NumberProposal(const Column& column) {
  Proposal proposal{.kind = Proposal::Kind::kNumber};
  const uint64_t odd = column.values - column.numbers;
  // Some values far above the others, none below 0.
  const bool skewed = column.min >= 0 && column.max >= 100 && column.std > 1.5 * column.mean;
  const double mean = skewed ? column.log_mean : column.mean, std = skewed ? column.log_std : column.std;
  if (!std::isfinite(mean) || !std::isfinite(std) || !(std > 0)) return Ignored("its numbers are too large");
  proposal.settings = "type: number, " + std::string(skewed ? "log: true, " : "") +
                      "mean: " + NumberText(mean, std) + ", std: " + NumberText(std);
  proposal.lost = odd + column.missing - column.absent;
  if (column.absent > 0) {
    const std::string usual =
        skewed ? NumberText(std::expm1(column.log_mean)) : NumberText(column.mean, column.std);
    proposal.settings += ", default: " + usual;
    proposal.Remark(Count(column.absent) + " missing: as if they were usual");
  }
  if (odd > 0) proposal.Remark(OddTexts(column) + std::string(kDead));
  if (column.missing > column.absent)
    proposal.Remark(Count(column.missing - column.absent) + " missing" + std::string(kDead));
  if (HasClasses(column) && column.whole && column.distinct > 2)
    proposal.Remark(Count(column.distinct) + " different values: a category?");
  return proposal;
}

// Nearly all values are numbers, many of which no decoder reads, or at least half of many are, and the others
// are texts; empty for other columns.
std::string NumbersRemark(const Column& column) {
  uint64_t spelled = 0;
  for (const auto& [spelling, found] : column.spelled) spelled += found.count;
  if (spelled == 0 || Exceed(column.values - column.numbers - spelled, kOddShare, column.values)) {
    const bool mixed = !column.codes && column.distinct > kClasses && column.numbers < column.values &&
                       2 * column.numbers >= column.values;
    return mixed ? OddTexts(column) + " among " + Count(column.numbers) + " numbers; leave them empty" : "";
  }
  const auto& [spelling, most] =
      *std::ranges::max_element(column.spelled, {}, [](const auto& entry) { return entry.second.count; });
  return Count(most.count) + " numbers " + std::string(spelling->how) + ", such as " + Quoted(most.first) +
         ", are texts; " + std::string(spelling->remedy);
}

// Two of the listed values that differ in case or blanks alone; empty if there are none.
std::string AlikeRemark(const Column& column) {
  std::map<std::string, std::string> seen;
  for (const auto& [text, count] : column.texts) {
    std::string plain;
    std::ranges::copy_if(Lower(text), std::back_inserter(plain),
                         [](char c) { return c != ' ' && c != '\t'; });
    const auto [at, first] = seen.emplace(plain, text);
    if (!first) return Quoted(at->second) + " and " + Quoted(text) + " are two values";
  }
  return "";
}

Proposal TextProposal(const Column& column, bool json) {
  Proposal proposal;
  const bool nearly_unique =
      column.distinct > kListedInProposal && Exceed(column.distinct, 0.8, column.values);
  const std::string numbers = NumbersRemark(column);
  if (column.unique() || nearly_unique)
    return Ignored(numbers.empty() ? "nearly every text is another one: an id?" : numbers);
  if (column.texts.size() == column.distinct && column.distinct <= kListedInProposal) {
    proposal.kind = Proposal::Kind::kCategory;
    proposal.settings = "type: category, values: " + ListOf(ValuesOf(column));
    proposal.Remark(AlikeRemark(column));
  } else if (!numbers.empty()) {
    return Ignored(numbers);
  } else {
    uint64_t buckets = 64;
    while (buckets < 2 * column.distinct && buckets < 1024) buckets *= 2;
    proposal.kind = Proposal::Kind::kHashed;
    proposal.settings = StrCat("type: category, buckets: ", buckets);
    proposal.Remark(Count(column.distinct) + (column.all_distinct_known ? "" : " and more") +
                    " different values");
  }
  proposal.Remark(numbers);
  if (column.codes) proposal.Remark("zeros before the digits: a code, no number");
  if (column.missing == 0) return proposal;
  // In CSV, and as a text in JSON, it is a value like any other that is not listed.
  if (json && column.absent > 0) proposal.settings += ", default: \"\"";
  proposal.Remark(Count(column.missing) + " missing");
  return proposal;
}

// Remarks on records of JSON that no field of the column takes.
std::string LostRecords(const Column& column) {
  std::string text;
  if (column.infinite > 0) text = Count(column.infinite) + " infinite" + std::string(kDead);
  if (column.blocked > 0) {
    text += (text.empty() ? "" : "; ") + Quoted(column.blocker) + " is no object in " +
            Count(column.blocked) + " records" + std::string(kDead);
  }
  return text;
}

Proposal FeatureProposal(const Column& column, bool json, uint64_t rows) {
  if (column.values == 0) return Ignored("has no values");
  if (Exceed(column.blocked, kMissingShare, rows)) {
    return Ignored(Quoted(column.blocker) + " is no object in " + Count(column.blocked) +
                   " records: too many dead letters");
  }
  if (column.nested > 0) return Ignored("holds lists or objects");
  const uint64_t records = column.values + column.missing;
  if ((json || MostlyNumbers(column)) && Exceed(column.absent, kAbsentShare, records))
    return Ignored(Count(column.absent) + " of " + Count(records) + " missing");
  if (column.constant()) {
    const std::string value = column.texts.empty() ? "" : " " + Quoted(column.texts.begin()->first);
    return Ignored("constant:" + value + (column.missing > 0 ? " or missing" : ""));
  }
  if (column.is_number() && column.whole && column.rising && column.unique())
    return Ignored("grows by the same with every row: an id?");
  Proposal proposal = MostlyNumbers(column) ? NumberProposal(column) : TextProposal(column, json);
  proposal.Remark(LostRecords(column));
  proposal.lost += column.infinite;
  return proposal;
}

Proposal LabelProposal(const Column& column, uint64_t rows) {
  const auto fail = [&](const std::string& why) {
    throw std::invalid_argument("'" + column.name + "' cannot be the label: " + why);
  };
  if (column.values == 0) fail("it has no values");
  if (column.nested > 0) fail("it holds lists or objects");
  if (column.constant()) fail("all its values are the same");
  Proposal proposal{.kind = Proposal::Kind::kNumber};
  uint64_t lost = column.missing + column.infinite + column.blocked;
  if (CountsClasses(column)) {
    proposal.settings = StrCat("type: number, classes: ", column.distinct, ", role: label");
  } else if (IsClass(column)) {
    const std::string numbers = NumbersRemark(column);
    if (!HasClasses(column) && !numbers.empty()) fail(numbers);
    if (column.texts.size() != column.distinct || column.distinct > Column::kMaxTexts)
      fail(StrCat("it has more than ", Column::kMaxTexts, " different texts, or long ones"));
    proposal.kind = Proposal::Kind::kCategory;
    proposal.settings = "type: category, values: " + ListOf(ValuesOf(column)) + ", role: label";
    proposal.Remark(AlikeRemark(column));
    proposal.Remark(numbers);
  } else {
    proposal.settings = "type: number, role: label";
    proposal.Remark("mean " + NumberText(column.mean, column.std) + ", std " + NumberText(column.std));
    lost += column.values - column.numbers;
    if (column.numbers < column.values) proposal.Remark(OddTexts(column) + std::string(kDead));
  }
  if (column.missing > 0) proposal.Remark(Count(column.missing) + " missing" + std::string(kDead));
  proposal.Remark(LostRecords(column));
  if (Exceed(lost, kAllowedShare, rows))
    proposal.Remark("a job allows fewer dead letters (train: max_dead_letter_rate)");
  return proposal;
}

// Common names of labels.
bool SoundsLikeLabel(std::string_view name) {
  const std::string lower = Lower(name);
  static constexpr std::string_view kWhole[] = {"y",       "label",  "class", "target",
                                                "outcome", "income", "result"};
  static constexpr std::string_view kParts[] = {"label", "target", "default", "churn", "fraud"};
  return std::ranges::find(kWhole, lower) != std::end(kWhole) ||
         std::ranges::any_of(kParts, [&](auto part) { return lower.find(part) != lower.npos; });
}

// Columns with few values, the likeliest first, and the last one in any case.
std::vector<std::string> LabelCandidates(const std::vector<Column>& columns) {
  constexpr size_t kMax = 5;
  std::vector<std::pair<int, std::string>> found;
  for (size_t c = 0; c < columns.size(); ++c) {
    const Column& column = columns[c];
    const bool last = c + 1 == columns.size();
    if (column.values == 0 || column.constant() || column.nested > 0) continue;
    const bool classes = HasClasses(column);
    if (!classes && !(last && column.is_number())) continue;
    const int rank =
        4 * SoundsLikeLabel(column.name) + 3 * last + 2 * (column.distinct == 2) + (column.missing == 0);
    std::string text = Quoted(column.name) + (classes ? " (" : " (a number)");
    if (classes) {
      const auto values = ValuesOf(column);
      for (size_t i = 0; i < values.size() && i < kMax; ++i) text += (i > 0 ? ", " : "") + Quoted(values[i]);
      text += values.size() > kMax ? ", ...)" : ")";
    }
    found.emplace_back(-rank, text);
  }
  std::ranges::stable_sort(found, {}, &std::pair<int, std::string>::first);
  std::vector<std::string> names;
  for (size_t i = 0; i < found.size() && i < kMax; ++i) names.push_back(found[i].second);
  return names;
}

const Column* FindLabel(const std::vector<Column>& columns, const std::string& label, bool may_have_header) {
  if (label.empty()) return nullptr;
  const auto at = std::ranges::find(columns, label, &Column::name);
  if (std::ranges::count(columns, label, &Column::name) > 1)
    throw std::invalid_argument("two columns have the name " + Quoted(label));
  if (at != columns.end()) return &*at;
  std::vector<std::string> names;
  for (const Column& column : columns) names.push_back(column.name);
  const std::string near = Nearest(label, names);
  std::string known;
  for (size_t i = 0; i < names.size() && i < 20; ++i) known += (i > 0 ? ", " : "") + Quoted(names[i]);
  throw std::invalid_argument("there is no column " + Quoted(label) + "; " +
                              (near.empty() ? "there are " + known + (names.size() > 20 ? ", ..." : "")
                                            : "did you mean " + Quoted(near) + "?") +
                              (may_have_header ? "; if the first line has the names, say --header" : ""));
}

// Ignores the columns of numbers with the most missing values until few enough records are lost.
void LimitLosses(std::vector<Proposal>* proposals, const Column* label, const std::vector<Column>& columns,
                 uint64_t rows) {
  std::vector<size_t> losing;
  std::map<std::string, uint64_t> blocked;  // records that all columns of an object lose
  for (size_t c = 0; c < columns.size(); ++c) {
    uint64_t& records = blocked[columns[c].blocker];
    if ((*proposals)[c].kind != Proposal::Kind::kIgnored) records = std::max(records, columns[c].blocked);
  }
  uint64_t lost = 0;
  for (const auto& [blocker, records] : blocked) lost += records;
  for (size_t c = 0; c < columns.size(); ++c) {
    if (&columns[c] == label || (*proposals)[c].lost == 0) continue;
    losing.push_back(c);
    lost += (*proposals)[c].lost;
  }
  std::ranges::sort(losing, std::greater<>(), [&](size_t c) { return (*proposals)[c].lost; });
  for (const size_t c : losing) {
    if (!Exceed(lost, kMissingShare, rows)) return;
    const Proposal losing_most = (*proposals)[c];
    lost -= losing_most.lost;
    std::string why;
    for (const std::string& remark : losing_most.remarks) {
      if (remark.ends_with(kDead))
        why += (why.empty() ? "" : ", ") + remark.substr(0, remark.size() - kDead.size());
    }
    (*proposals)[c] = Ignored(why + ": too many dead letters of " + Count(rows) + " records");
  }
}

// True if other records have an object there.
bool IsObjectElsewhere(const Column& column, const std::vector<Column>& columns) {
  return std::ranges::any_of(columns, [&](const Column& other) { return other.is_in(column); });
}

// `, path: customer.age`, if the name alone does not lead to the value.
std::string PathSetting(const Column& column) {
  if (column.path.size() < 2) return "";
  const bool plain = std::ranges::none_of(
      column.path, [](const std::string& key) { return key.empty() || key.find('.') != key.npos; });
  return ", path: " + (plain ? YamlText(PathText(column.path)) : ListOf(column.path));
}

std::string FieldLine(const Column& column, const Proposal& proposal) {
  const std::string& name = column.name;
  const bool read = proposal.kind != Proposal::Kind::kIgnored;
  std::string line =
      "    " + YamlText(name) + ": {" + proposal.settings + (read ? PathSetting(column) : "") + "}";
  if (proposal.remarks.empty()) return line + "\n";
  line += std::string(line.size() < 60 ? 60 - line.size() : 1, ' ') + " #";
  return line + " " + Joined(proposal.remarks, "; ") + "\n";
}

std::string StreamSection(const Inspection& inspection, const ProposeOptions& options) {
  std::string text = "stream:\n";
  if (!options.stream.empty()) {
    for (std::string_view rest = options.stream; !rest.empty();) {
      text += "  " + std::string(TakeUntil("\n", &rest));
      text.erase(text.find_last_not_of(' ') + 1);
      text += "\n";
    }
    return text;
  }
  text += "  files:\n    format: " + std::string(inspection.format == Schema::Format::kCsv ? "csv" : "json");
  text += "\n    paths: [" + YamlText(options.path) + "]\n";
  if (inspection.header) text += "    header: true\n";
  if (!inspection.encoding.empty()) text += "    encoding: " + YamlText(inspection.encoding) + "\n";
  return text;
}

std::string CharacterName(char c) {
  return c == '\0' ? "none" : std::string(1, c);
}

// Why a file has one column; empty if it has more.
std::string OneColumnRemark(const Inspection& inspection) {
  if (inspection.format != Schema::Format::kCsv || inspection.delimiter.columns != 1) return "";
  return "no delimiter was found among ',', ';', tab, '|', '^' and '~' (--delimiter says another one)";
}

std::string Head(const Inspection& inspection, const ProposeOptions& options) {
  const bool csv = inspection.format == Schema::Format::kCsv;
  std::string text = "# Proposed by `leat schema` from " +
                     (options.stream.empty() ? Quoted(options.path) : options.path) + ": " +
                     (inspection.whole_file ? "" : "the first ") + Count(inspection.rows) + " rows, " +
                     Count(inspection.columns.size()) + (csv ? " columns" : " keys");
  if (csv) {
    text += std::string(", ") + (inspection.header ? "with" : "without") + " a header, delimiter " +
            DelimiterName(inspection.delimiter.character);
    if (inspection.quote != '"') text += ", quote " + CharacterName(inspection.quote);
    if (inspection.escape != '\0') text += std::string(", escape ") + inspection.escape;
    if (inspection.decimal != '.') text += std::string(", decimal ") + inspection.decimal;
  }
  text += "\n";
  if (const std::string one = OneColumnRemark(inspection); !one.empty())
    text += "# There is one column only: " + one + ".\n";
  if (inspection.bad_rows > 0) {
    text += "# " + Count(inspection.bad_rows) +
            " rows would be dead letters; the first: " + Quoted(inspection.first_bad) + "\n";
  }
  if (options.label.empty()) {
    const auto candidates = LabelCandidates(inspection.columns);
    text += "# No label is set.";
    if (!candidates.empty()) text += " Candidates (--label NAME):";
    text += "\n";
    for (const std::string& candidate : candidates) text += "#   " + candidate + "\n";
  }
  text += StreamSection(inspection, options);
  text += "schema:\n  format: " + std::string(csv ? "csv" : "json") + "\n";
  if (csv) {
    const char delimiter = inspection.delimiter.character;
    text += "  delimiter: " + (delimiter == '\t' ? "tab" : YamlText(std::string(1, delimiter))) + "\n";
    if (inspection.quote != '"') text += "  quote: " + YamlText(CharacterName(inspection.quote)) + "\n";
    if (inspection.escape != '\0') text += "  escape: " + YamlText(CharacterName(inspection.escape)) + "\n";
    if (inspection.decimal != '.') text += "  decimal: " + YamlText(CharacterName(inspection.decimal)) + "\n";
    if (!inspection.missing.empty()) text += "  missing: " + ListOf(inspection.missing) + "\n";
  }
  return text;
}

// The label's requirements on the model.
std::string ModelRemark(const Column& label) {
  if (!IsClass(label)) return "# model: a last layer of 1 unit, with the loss squared_error\n";
  return StrCat("# model: a last layer of ", label.distinct, " units, with the loss softmax_cross_entropy\n");
}

// Why a column cannot be a field, or empty.
std::string WhyLeftOut(const std::string& name, size_t columns) {
  if (name.empty()) return "it has no name";
  if (columns > 1) return "another column has the same name";
  if (name.size() > kMaxName) return StrCat("its name has more than ", kMaxName, " bytes");
  return "";
}

// The columns and why none of them makes a feature, as in "a (constant: 1), y (the label)".
std::string Reasons(const std::vector<Column>& columns, const std::vector<Proposal>& proposals,
                    const Column* label, const std::map<std::string_view, size_t>& names) {
  constexpr size_t kShown = 10;
  std::string text;
  for (size_t c = 0; c < columns.size() && c < kShown; ++c) {
    const auto& remarks = proposals[c].remarks;
    const std::string& name = columns[c].name;
    const std::string left_out = WhyLeftOut(name, names.at(name));
    text += (c > 0 ? ", " : "") + Quoted(columns[c].name) + " (" +
            (!left_out.empty()      ? left_out
             : &columns[c] == label ? "the label"
             : remarks.empty()      ? "left out"
                                    : remarks.front()) +
            ")";
  }
  return columns.size() > kShown ? text + ", …" : text;
}

}  // namespace

std::string Propose(const Inspection& inspection, const ProposeOptions& options) {
  const auto& columns = inspection.columns;
  const bool json = inspection.format == Schema::Format::kJson;
  const Column* const label =
      FindLabel(columns, options.label, !json && !inspection.header && options.stream.empty());
  std::vector<Proposal> proposals;
  for (const Column& column : columns) {
    proposals.push_back(&column == label ? LabelProposal(column, inspection.rows)
                        : IsObjectElsewhere(column, columns)
                            ? Ignored("is an object in other records")
                            : FeatureProposal(column, json, inspection.rows));
  }
  LimitLosses(&proposals, label, columns, inspection.rows);

  std::string text = Head(inspection, options) + "  fields:\n";
  std::map<std::string_view, size_t> names;
  for (const Column& column : columns) ++names[column.name];
  size_t features = 0;
  for (size_t c = 0; c < columns.size(); ++c) {
    const std::string& name = columns[c].name;
    if (const std::string why = WhyLeftOut(name, names[name]); !why.empty()) {
      text += StrCat("    # column ", c + 1, ", ", Quoted(name), ", is left out: ", why, "\n");
      continue;
    }
    text += FieldLine(columns[c], proposals[c]);
    features += &columns[c] != label && proposals[c].kind != Proposal::Kind::kIgnored;
  }
  if (features == 0) {
    const std::string one = OneColumnRemark(inspection);
    throw std::invalid_argument("no column would make a feature; " + Count(columns.size()) +
                                (columns.size() == 1 ? " was read: " : " were read: ") +
                                Reasons(columns, proposals, label, names) + (one.empty() ? "" : "; " + one));
  }
  if (label != nullptr) text += ModelRemark(*label);
  return text;
}

}  // namespace leat::stream
