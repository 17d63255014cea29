#include "stream/csv/csv_settings.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "stream/csv/delimiter.h"

namespace leat::stream {
namespace {

constexpr size_t kMaxMissing = 64;

// A list of texts, or one.
std::vector<std::string> MissingFrom(const Config& missing) {
  std::vector<std::string> texts;
  const auto add = [&](const Config& text) {
    if (text.IsNull()) text.Fail("a missing value that is spelled null needs quotes: \"null\"");
    texts.push_back(text.String());
  };
  if (!missing.IsList()) {
    add(missing);
    return texts;
  }
  for (size_t i = 0; i < missing.size(); ++i) add(missing[i]);
  if (texts.size() > kMaxMissing)
    missing.Fail(std::to_string(texts.size()) + " texts for missing values; at most " +
                 std::to_string(kMaxMissing));
  return texts;
}

// A text is missing, or a value.
void CheckMissing(const Config& missing, const Schema& schema) {
  for (const Field& field : schema.fields) {
    if (field.from || field.type != Field::Type::kCategory) continue;
    for (const std::string& text : *schema.missing) {
      if (!text.empty() && std::ranges::find(field.values, text) != field.values.end())
        missing.Fail("'" + text + "' is missing, and a value of '" + field.name + "'; it can be one of them");
    }
  }
}

void CheckDifferent(const Config& config, const Schema& schema) {
  const auto same = [&](const char* key, char a, const char* other, char b) {
    if (a != '\0' && a == b && config.Has(key))
      config.At(key).Fail(std::string(key) + " is '" + a + "', as " + other + " is");
  };
  same("quote", schema.quote, "delimiter", schema.delimiter);
  same("escape", schema.escape, "delimiter", schema.delimiter);
  same("escape", schema.escape, "quote", schema.quote);
  same("quote", schema.quote, "decimal", schema.decimal);
  same("escape", schema.escape, "decimal", schema.decimal);
}

constexpr const char* kCsvCharacterRule = "it must be one character that is no letter and no digit, or none";

// A quote or an escape: one character, or 0 for `none`. None if it cannot be one.
std::optional<char> ParseCsvCharacter(std::string_view text) {
  if (text == "none") return '\0';
  const bool fits = text.size() == 1 && text[0] > 0x20 && text[0] < 0x7f &&
                    std::isalnum(static_cast<unsigned char>(text[0])) == 0;
  return fits ? std::optional(text[0]) : std::nullopt;
}

std::optional<char> ParseDecimal(std::string_view text) {
  return text == "." || text == "," ? std::optional(text[0]) : std::nullopt;
}

char CsvCharacterFrom(const Config& config, const char* key) {
  const std::string text = config.String();
  const auto character = ParseCsvCharacter(text);
  if (!character) config.Fail(std::string(key) + " is '" + text + "'; " + kCsvCharacterRule);
  return *character;
}

}  // namespace

CsvKnown KnownFrom(const CsvTexts& texts, const std::string& prefix) {
  const auto parse = [&](const char* name, const std::string& text, auto how, const char* rule) {
    std::optional<char> character;
    if (text.empty()) return character;
    character = how(text);
    if (!character) throw std::invalid_argument(prefix + name + " is '" + text + "'; " + rule);
    return character;
  };
  const auto delimiter = ParseDelimiter(texts.delimiter);
  if (!delimiter && !texts.delimiter.empty())
    throw std::invalid_argument(prefix + WhyNoDelimiter(texts.delimiter));
  return {.delimiter = delimiter,
          .quote = parse("quote", texts.quote, ParseCsvCharacter, kCsvCharacterRule),
          .escape = parse("escape", texts.escape, ParseCsvCharacter, kCsvCharacterRule),
          .decimal = parse("decimal", texts.decimal, ParseDecimal, "it must be . or ,")};
}

void ReadCsvSettings(const Config& config, Schema* schema) {
  for (const char* key : kCsvSettings) {
    if (!config.Has(key) || schema->format == Schema::Format::kCsv) continue;
    config.At(key).Fail(std::string(key) + (key == std::string_view("columns") ? " are" : " is") +
                        " for the format csv");
  }
  if (config.Has("delimiter")) {
    schema->delimiter = DelimiterFrom(config.At("delimiter"));
    schema->delimiter_set = true;
  }
  if (config.Has("quote")) schema->quote = CsvCharacterFrom(config.At("quote"), "quote");
  if (config.Has("escape")) schema->escape = CsvCharacterFrom(config.At("escape"), "escape");
  if (config.Has("decimal")) schema->decimal = config.At("decimal").OneOf("decimal", {".", ","})[0];
  CheckDifferent(config, *schema);
  if (!config.Has("missing")) return;
  schema->missing = MissingFrom(config.At("missing"));
  CheckMissing(config.At("missing"), *schema);
}

}  // namespace leat::stream
