#include "stream/bots/bots.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <iterator>
#include <numbers>
#include <string_view>
#include <vector>

#include "base/rng.h"

namespace leat::stream {
namespace {

constexpr int kDayMinutes = 24 * 60;

// A kind of merchant: its share, its prices relative to the customer's usual amount, and the effect of an
// unusually large payment. At some kinds fraudsters buy goods to resell, at others they test cards with small
// amounts; `phase` determines when in the drift each kind is which.
struct BotKind {
  std::string_view name;
  float share;
  float cost;
  float phase;
};
constexpr std::array<BotKind, 10> kKinds = {{{"grocery", 0.24f, 0.9f, 3.1f},
                                             {"restaurant", 0.16f, 0.8f, 2.4f},
                                             {"fuel", 0.11f, 1.1f, 3.7f},
                                             {"fashion", 0.10f, 1.2f, 0.9f},
                                             {"electronics", 0.09f, 1.7f, 0.0f},
                                             {"travel", 0.07f, 1.8f, 5.6f},
                                             {"games", 0.07f, 0.7f, 1.5f},
                                             {"pharmacy", 0.07f, 0.8f, 4.4f},
                                             {"jewellery", 0.03f, 2.0f, 0.4f},
                                             {"transfer", 0.06f, 1.5f, 5.0f}}};

struct Country {
  std::string_view name;
  float share;
  float risk;
};
constexpr std::array<Country, 8> kCountries = {{{"ES", 0.26f, -0.3f},
                                                {"MX", 0.20f, 0.2f},
                                                {"US", 0.16f, 0.1f},
                                                {"FR", 0.12f, -0.2f},
                                                {"BR", 0.10f, 0.4f},
                                                {"DE", 0.07f, -0.4f},
                                                {"IN", 0.05f, 0.1f},
                                                {"JP", 0.04f, -0.3f}}};

// `night` is the effect of a payment at the fraudsters' hours: bots pay online at night, stolen cards are
// used by day.
struct Channel {
  std::string_view name;
  float share;
  float night;
};
constexpr std::array<Channel, 4> kChannels = {
    {{"contactless", 0.36f, -0.8f}, {"online", 0.32f, 1.3f}, {"chip", 0.22f, -1.0f}, {"phone", 0.10f, 0.9f}}};

// Index into `table` by the shares of its entries, which add up to 1.
template <class Table>
uint8_t Draw(const Table& table, double u) {
  size_t i = 0;
  while (i + 1 < table.size() && u >= table[i].share) u -= table[i++].share;
  return static_cast<uint8_t>(i);
}

// A customer's habits and latest payment.
struct Customer {
  float amount;  // usual
  float hour;    // usual, 0 … 24
  float pace;    // payments a day
  float radius;  // km, of the usual payment
  uint32_t device;
  uint8_t country;
  uint8_t channel;
  std::array<uint8_t, 3> kinds;
  int64_t last;  // minute
};
constexpr double kMaxPace = 4;

// A payment in the units of its fields, as printed: the probability is a function of these.
struct Payment {
  uint64_t number = 0;
  uint32_t customer = 0;
  int64_t minute = 0;       // since the start of the simulation
  int64_t amount = 0;       // hundredths
  int64_t times_usual = 0;  // hundredths, amount / usual amount
  int64_t hour = 0;         // hundredths
  int64_t hours_off = 0;    // hundredths, difference from the usual hour
  int64_t since_last = 0;   // minutes
  int64_t distance = 0;     // tenths of a km, from home
  uint32_t device = 0;
  bool new_device = false;
  uint8_t kind = 0;
  uint8_t country = 0;
  uint8_t channel = 0;
};

Customer MakeCustomer(Rng& rng) {
  Customer customer{};
  customer.amount = static_cast<float>(30 * std::exp(0.6 * rng.Normal()));
  const double u = rng.Uniform();
  // Most people pay around noon and in the early evening.
  const double hour = u < 0.4   ? 12.5 + 1.5 * rng.Normal()
                      : u < 0.8 ? 18.5 + 2 * rng.Normal()
                                : 24 * rng.Uniform();
  customer.hour = static_cast<float>(std::fmod(hour + 24, 24));
  customer.pace = static_cast<float>(0.5 + (kMaxPace - 0.5) * rng.Uniform());
  customer.radius = static_cast<float>(4 * std::exp(0.7 * rng.Normal()));
  customer.device = static_cast<uint32_t>(rng());
  customer.country = Draw(kCountries, rng.Uniform());
  customer.channel = Draw(kChannels, rng.Uniform());
  for (auto& kind : customer.kinds) kind = Draw(kKinds, rng.Uniform());
  customer.last = static_cast<int64_t>(rng.Below(kDayMinutes));
  return customer;
}

// The minute of the customer's next payment: soon after the last one, or days later around the usual hour.
int64_t NextMinute(const Customer& customer, Rng& rng) {
  if (rng.Chance(0.3)) return customer.last + 1 + static_cast<int64_t>(rng.Exponential(45));
  const double wait = rng.Exponential(kDayMinutes / customer.pace);
  const int64_t day = (customer.last + static_cast<int64_t>(wait)) / kDayMinutes;
  const double hour = rng.Chance(0.2) ? 24 * rng.Uniform() : customer.hour + 2.2 * rng.Normal();
  int64_t minute = day * kDayMinutes + static_cast<int64_t>(60 * std::fmod(hour + 48, 24));
  while (minute <= customer.last) minute += kDayMinutes;
  return minute;
}

void DrawPlace(const Customer& customer, Rng& rng, Payment* payment) {
  payment->kind =
      rng.Chance(0.6) ? customer.kinds[rng.Below(customer.kinds.size())] : Draw(kKinds, rng.Uniform());
  payment->channel = rng.Chance(0.5) ? customer.channel : Draw(kChannels, rng.Uniform());
  const bool away = rng.Chance(0.18);
  payment->country = away && rng.Chance(0.5) ? Draw(kCountries, rng.Uniform()) : customer.country;
  const double distance = (away ? 500 : customer.radius) * std::exp((away ? 1.1 : 0.9) * rng.Normal());
  payment->distance = static_cast<int64_t>(10 * std::min(distance, 15000.0));
  payment->new_device = rng.Chance(0.2);
  payment->device = payment->new_device ? static_cast<uint32_t>(rng()) : customer.device;
}

Payment MakePayment(Customer* customer, Rng& rng) {
  Payment payment;
  payment.minute = NextMinute(*customer, rng);
  payment.since_last = payment.minute - customer->last;
  customer->last = payment.minute;
  payment.hour = payment.minute % kDayMinutes * 100 / 60;
  const double off = std::abs(static_cast<double>(payment.hour) / 100 - customer->hour);
  payment.hours_off = std::lround(100 * std::min(off, 24 - off));
  DrawPlace(*customer, rng, &payment);
  const double amount = customer->amount * kKinds[payment.kind].cost * std::exp(0.75 * rng.Normal());
  payment.amount = std::clamp(std::lround(100 * amount), 50l, 2'000'000l);
  payment.times_usual = std::lround(static_cast<double>(payment.amount) / customer->amount);
  return payment;
}

// A quantity relative to all payments: about -2 … 2, flattened at the ends so that no single field decides.
double Level(double value, double mean, double deviation) {
  const double z = (value - mean) / deviation;
  return z / std::sqrt(1 + z * z / 6);
}

// A weight that changes over the run, as the fraudsters' behaviour does. `moment` is 0 at the first event, 1
// at the last; `swing` is in radians over the run.
double Swing(double phase, double swing, double moment) {
  return std::cos(phase + swing * (moment - 0.5));
}

// Log odds of fraud: a linear part, which any linear model finds, and smooth products of two fields, where
// the effect of one field depends on the other.
double LogOdds(const Payment& p, double moment) {
  const double large = Level(std::log1p(0.01 * static_cast<double>(p.times_usual)), 0.80, 0.43);
  const double far = Level(std::log1p(0.1 * static_cast<double>(p.distance)), 2.5, 2.0);
  const double odd = Level(0.01 * static_cast<double>(p.hours_off), 2.7, 2.6);
  const double rested = Level(std::log1p(static_cast<double>(p.since_last)), 5.6, 1.9);
  const double fresh = p.new_device ? 1.6 : -0.4;
  const double hour = 2 * std::numbers::pi / 2400 * static_cast<double>(p.hour);
  const double night = std::cos(hour - 0.8 - 1.2 * (moment - 0.5));

  double odds = -5.5 + 1.0 * far + 0.9 * large + 0.8 * fresh + 1.3 * kCountries[p.country].risk;
  odds += 1.8 * Swing(kKinds[p.kind].phase, 1.7, moment) * large;
  odds += 1.1 * kChannels[p.channel].night * night;
  odds += 1.1 * fresh * (Swing(0.8, 1.5, moment) * far + Swing(-0.8, 1.5, moment) * odd);
  odds -= 1.1 * rested * (Swing(-0.7, 1.5, moment) * odd + Swing(0.9, 1.5, moment) * far);
  return odds;
}

// p_fraud in millionths, as printed.
int64_t Millionths(const Payment& payment, double moment) {
  return std::clamp(std::lround(1e6 / (1 + std::exp(-LogOdds(payment, moment)))), 1l, 999'999l);
}

// Appends pieces of text and numbers.
class TextField {
 public:
  explicit TextField(std::string* out) : out_(out) {}
  TextField& operator<<(std::string_view text) {
    out_->append(text);
    return *this;
  }
  TextField& operator<<(int64_t number) {
    char digits[20];
    out_->append(digits, std::to_chars(digits, std::end(digits), number).ptr);
    return *this;
  }
  // The last N digits with leading zeros.
  template <int N>
  TextField& Digits(uint64_t number) {
    char digits[N];
    for (int i = N; i-- > 0; number /= 10) digits[i] = static_cast<char>('0' + number % 10);
    out_->append(digits, N);
    return *this;
  }
  TextField& Hex(uint32_t number) {
    char digits[8];
    for (int i = 8; i-- > 0; number >>= 4) digits[i] = "0123456789abcdef"[number & 15];
    out_->append(digits, 8);
    return *this;
  }
  // A number stored as a multiple of 10^-N.
  template <int N>
  TextField& Decimal(int64_t number) {
    int64_t one = 1;
    for (int i = 0; i < N; ++i) one *= 10;
    *this << number / one << ".";
    return Digits<N>(static_cast<uint64_t>(number % one));
  }

 private:
  std::string* out_;
};

void Print(const Payment& p, int64_t millionths, bool fraud, std::string* out) {
  using std::chrono::days;
  const std::chrono::sys_days start{std::chrono::year{2026} / 1 / 1};
  const std::chrono::year_month_day date{start + days(p.minute / kDayMinutes)};
  const auto minute = static_cast<uint64_t>(p.minute % kDayMinutes);
  TextField text(out);
  text << R"({"id":"p)";
  text.Digits<10>(p.number) << R"(","time":")" << int{date.year()} << "-";
  text.Digits<2>(unsigned{date.month()}) << "-";
  text.Digits<2>(unsigned{date.day()}) << "T";
  text.Digits<2>(minute / 60) << ":";
  text.Digits<2>(minute % 60) << R"(","customer":)" << p.customer << R"(,"amount":)";
  text.Decimal<2>(p.amount) << R"(,"times_usual":)";
  text.Decimal<2>(p.times_usual) << R"(,"hour":)";
  text.Decimal<2>(p.hour) << R"(,"hours_off":)";
  text.Decimal<2>(p.hours_off) << R"(,"since_last":)" << p.since_last << R"(,"distance_km":)";
  text.Decimal<1>(p.distance) << R"(,"kind":")" << kKinds[p.kind].name << R"(","country":")"
                              << kCountries[p.country].name << R"(","channel":")" << kChannels[p.channel].name
                              << R"(","device":")";
  text.Hex(p.device) << R"(","new_device":)" << int64_t{p.new_device} << R"(,"fraud":)" << int64_t{fraud}
                     << R"(,"p_fraud":)";
  text.Decimal<6>(millionths) << "}";
}

}  // namespace

BotsConfig BotsConfig::FromConfig(const Config& config) {
  config.Allow({"seed", "customers", "events", "rate"});
  BotsConfig bots;
  bots.seed = static_cast<uint64_t>(config.Integer("seed", 1, 0, int64_t{1} << 62));
  bots.customers = static_cast<uint32_t>(config.Integer("customers", bots.customers, 1, 1'000'000));
  bots.events =
      static_cast<uint64_t>(config.Integer("events", static_cast<int64_t>(bots.events), 1, int64_t{1} << 50));
  bots.rate = config.Number("rate", 0, 0, 1e9);
  return bots;
}

struct Bots::State {
  Rng rng;
  uint64_t events;
  std::vector<Customer> customers;
  Payment payment;
  uint64_t produced = 0;
};

Bots::Bots(const BotsConfig& config) : state_(new State{.rng = Rng(config.seed), .events = config.events}) {
  state_->customers.resize(std::max(config.customers, 1u));
  for (auto& customer : state_->customers) customer = MakeCustomer(state_->rng);
}

Bots::~Bots() = default;

double Bots::Next(std::string* out) {
  State& s = *state_;
  // Customers are chosen by their pace, so that all customers' calendars advance together.
  uint32_t who;
  do {
    who = static_cast<uint32_t>(s.rng.Below(s.customers.size()));
  } while (!s.rng.Chance(s.customers[who].pace / kMaxPace));
  s.payment = MakePayment(&s.customers[who], s.rng);
  s.payment.customer = who;
  s.payment.number = s.produced;
  const double moment = std::min(1.0, static_cast<double>(s.produced) / static_cast<double>(s.events));
  ++s.produced;
  const int64_t millionths = Millionths(s.payment, moment);
  const bool fraud = s.rng.Below(1'000'000) < static_cast<uint64_t>(millionths);
  Print(s.payment, millionths, fraud, out);
  return 1e-6 * static_cast<double>(millionths);
}

uint64_t Bots::produced() const {
  return state_->produced;
}

double Bots::ProbabilityAt(double moment) const {
  if (state_->produced == 0) return 0;
  return 1e-6 * static_cast<double>(Millionths(state_->payment, moment));
}

}  // namespace leat::stream
