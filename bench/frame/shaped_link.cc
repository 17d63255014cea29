#include "shaped_link.h"

#include <unistd.h>

#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace leat::bench {
namespace {

std::string Shell(const std::string& command) {
  std::string output;
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("cannot run a shell");
  std::array<char, 4096> some{};
  while (const size_t n = fread(some.data(), 1, some.size(), pipe)) output.append(some.data(), n);
  const int status = pclose(pipe);
  if (status != 0) throw std::runtime_error(command + ": " + output.substr(0, output.find('\n')));
  return output;
}

std::string Inside(const std::string& name, const std::string& command) {
  return "ip netns exec " + name + " " + command;
}

double Sent(const std::string& json) {
  for (const auto& qdisc : nlohmann::json::parse(json)) {
    if (qdisc.at("kind") == "tbf") return qdisc.at("bytes").get<double>();
  }
  throw std::runtime_error("no token bucket: " + json);
}

}  // namespace

ShapedLink::ShapedLink(double gbit) {
  const std::string tag = std::to_string(getpid());
  name_ = "leat" + tag;
  near_ = "ln" + tag;
  far_ = "lf" + tag;
  // A subnet of the private range that is no common default.
  const std::string net = "10.197." + std::to_string(getpid() % 250 + 1);
  near_address_ = net + ".1";
  far_address_ = net + ".2";
  const std::string rate = std::to_string(static_cast<long>(gbit * 1000)) + "mbit";
  const std::string bucket = " root tbf rate " + rate + " burst 512kb latency 50ms";
  Shell("ip netns add " + name_);
  try {
    Shell("ip link add " + near_ + " type veth peer name " + far_);
    Shell("ip link set " + far_ + " netns " + name_);
    Shell("ip addr add " + near_address_ + "/24 dev " + near_);
    Shell("ip link set " + near_ + " up");
    Shell(Inside(name_, "ip addr add " + far_address_ + "/24 dev " + far_));
    Shell(Inside(name_, "ip link set " + far_ + " up"));
    Shell(Inside(name_, "ip link set lo up"));
    Shell("tc qdisc add dev " + near_ + bucket);
    Shell(Inside(name_, "tc qdisc add dev " + far_ + bucket));
  } catch (...) {
    Remove();
    throw;
  }
}

std::vector<std::string> ShapedLink::Enter(const std::string& hidden) const {
  std::vector<std::string> command{"/usr/bin/env", "ip", "netns", "exec", name_};
  // The mounts of `ip netns exec` are its own.
  if (!hidden.empty())
    for (const std::string& word :
         {std::string("sh"), std::string("-c"), "mount -t tmpfs none '" + hidden + R"(' && exec "$@")",
          std::string("sh")})
      command.push_back(word);
  return command;
}

void ShapedLink::SetCongestionControl(const std::string& name) {
  Shell(Inside(name_, "sysctl -qw net.ipv4.tcp_congestion_control=" + name));
}

double ShapedLink::SentTo() const {
  return Sent(Shell("tc -s -j qdisc show dev " + near_));
}

double ShapedLink::SentFrom() const {
  return Sent(Shell(Inside(name_, "tc -s -j qdisc show dev " + far_)));
}

void ShapedLink::Remove() {
  for (const std::string& command : {"ip link del " + near_, "ip netns del " + name_}) {
    try {
      Shell(command);
    } catch (const std::exception&) {  // it does not exist
    }
  }
}

}  // namespace leat::bench
