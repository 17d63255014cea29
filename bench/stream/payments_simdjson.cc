// Compiled for this machine's processor: without that, On-Demand copies strings byte by byte.
#include <simdjson.h>

#include <array>
#include <cmath>
#include <numbers>
#include <stdexcept>

#include "payments.h"

namespace leat::bench {
namespace {

namespace ondemand = simdjson::ondemand;
using Text = std::string_view;

constexpr size_t kFeatures = 30;

constexpr std::array<Text, 10> kKinds = {"grocery", "restaurant", "fuel",     "fashion",   "electronics",
                                         "travel",  "games",      "pharmacy", "jewellery", "transfer"};
constexpr std::array<Text, 8> kCountries = {"ES", "MX", "US", "FR", "BR", "DE", "IN", "JP"};
constexpr std::array<Text, 4> kChannels = {"contactless", "online", "chip", "phone"};

// Normalises with a multiplication, as the decoder does.
struct Scale {
  double mean, std;
  float operator()(double x) const { return static_cast<float>(x * (1 / std) - mean / std); }
};
constexpr Scale kAmount{3.5, 1}, kTimesUsual{0.8, 0.43}, kHoursOff{2.7, 2.6}, kSinceLast{5.6, 1.9},
    kDistance{2.5, 2}, kNewDevice{0.2, 0.4};

template <size_t N>
void OneHot(const std::array<Text, N>& values, Text text, float* out) {
  for (size_t i = 0; i < N; ++i) {
    if (values[i] != text) continue;
    out[i] = 1;
    return;
  }
}

// As exact as std::log1p to the last bit or two of a double, in a third of its time.
double LogOnePlus(double x) {
  const double y = 1 + x;
  return std::log(y) + (x - (y - 1)) / y;
}

// Fields are asked for in their order, so that none is looked for twice.
void ReadRow(ondemand::object payment, float* features, float* label, float* truth) {
  features[0] = kAmount(LogOnePlus(payment.find_field("amount").get_double()));
  features[1] = kTimesUsual(LogOnePlus(payment.find_field("times_usual").get_double()));
  const double turns = payment.find_field("hour").get_double() * (1.0 / 24);
  const auto angle = static_cast<float>((turns - std::floor(turns)) * 2 * std::numbers::pi);
  features[2] = std::sin(angle);
  features[3] = std::cos(angle);
  features[4] = kHoursOff(payment.find_field("hours_off").get_double());
  features[5] = kSinceLast(LogOnePlus(payment.find_field("since_last").get_double()));
  features[6] = kDistance(LogOnePlus(payment.find_field("distance_km").get_double()));
  OneHot(kKinds, payment.find_field("kind").get_string(), features + 8);
  OneHot(kCountries, payment.find_field("country").get_string(), features + 18);
  OneHot(kChannels, payment.find_field("channel").get_string(), features + 26);
  features[7] = kNewDevice(payment.find_field("new_device").get_double());
  *label = static_cast<float>(payment.find_field("fraud").get_double());
  *truth = static_cast<float>(payment.find_field("p_fraud").get_double());
}

}  // namespace

struct SimdjsonPayments::State {
  ondemand::parser parser;
};

SimdjsonPayments::SimdjsonPayments() : state_(new State) {}
SimdjsonPayments::~SimdjsonPayments() {
  delete state_;
}

void SimdjsonPayments::Decode(const stream::RecordBatch& batch, PaymentRows* rows) {
  rows->features.assign(batch.size() * kFeatures, 0);
  rows->labels.resize(batch.size());
  rows->truth.resize(batch.size());
  const auto* const text = reinterpret_cast<const char*>(batch.data.data());
  for (size_t i = 0; i < batch.size(); ++i) {
    const size_t length = batch.offsets[i + 1] - batch.offsets[i];
    const simdjson::padded_string_view json(text + batch.offsets[i], length,
                                            length + stream::RecordBatch::kPadding);
    ondemand::document document = state_->parser.iterate(json);
    ReadRow(document.get_object(), &rows->features[i * kFeatures], &rows->labels[i], &rows->truth[i]);
  }
}

double SimdjsonPayments::ReadAll(std::string_view json) {
  const simdjson::padded_string_view padded(json, json.size() + stream::RecordBatch::kPadding);
  ondemand::document document = state_->parser.iterate(padded);
  ondemand::object payment = document.get_object();
  const auto text = [](Text value) {
    return static_cast<double>(value.size() + static_cast<uint8_t>(value.back()));
  };
  double sum = text(payment.find_field("id").get_string());
  sum += text(payment.find_field("time").get_string());
  sum += static_cast<double>(payment.find_field("customer").get_int64());
  sum += payment.find_field("amount").get_double();
  sum += payment.find_field("times_usual").get_double();
  sum += payment.find_field("hour").get_double();
  sum += payment.find_field("hours_off").get_double();
  sum += static_cast<double>(payment.find_field("since_last").get_int64());
  sum += payment.find_field("distance_km").get_double();
  sum += text(payment.find_field("kind").get_string());
  sum += text(payment.find_field("country").get_string());
  sum += text(payment.find_field("channel").get_string());
  sum += text(payment.find_field("device").get_string());
  sum += static_cast<double>(payment.find_field("new_device").get_int64());
  sum += static_cast<double>(payment.find_field("fraud").get_int64());
  sum += payment.find_field("p_fraud").get_double();
  return sum;
}

std::string SimdjsonPayments::Name() {
  return "simdjson " + std::to_string(simdjson::SIMDJSON_VERSION_MAJOR) + "." +
         std::to_string(simdjson::SIMDJSON_VERSION_MINOR) + "." +
         std::to_string(simdjson::SIMDJSON_VERSION_REVISION);
}

}  // namespace leat::bench
