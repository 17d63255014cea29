// Test cases of the ops of this family.
#pragma once

#include "compute/ops/ops.h"
#include "compute/ops/testing.h"

namespace leat::ops::cases {
inline void AddAttentionCases(OpCaseList& cases) {
  const SampleInput qkv = F32({2, 4, 18}, -1, 1), q = F32({2, 3, 4}, -1, 1), k = F32({2, 5, 4}, -1, 1);
  // A length below 0, and one beyond the keys.
  const SampleInput lengths = Integers(DType::kI32, {2}, -1, 6);
  const AttentionSettings plain{.heads = 2}, causal{.heads = 2, .causal = true};
  const AttentionSettings masked{.heads = 2, .causal = true, .mask_queries = true};
  const SampleInput qkv_y = F32({2, 4, 6}, -1, 1), q_y = F32({2, 3, 4}, -1, 1);
  const SampleInput qkv_l = F32({2, 2, 4}, 1, 2), q_l = F32({2, 2, 3}, 1, 2);
  cases.insert(
      cases.end(),
      {
          Case<Attention>("attention", {qkv}, plain),
          Case<Attention>("attention causal", {qkv}, causal),
          Case<Attention>("attention lengths", {qkv, lengths}, plain),
          Case<Attention>("attention masked", {qkv, lengths}, masked),
          Case<Attention>("attention q k v", {q, k, k}, plain),
          Case<Attention>("attention q k v causal", {q, k, k}, causal),
          Case<Attention>("attention q k v lengths", {q, k, k, lengths}, causal),
          Case<Attention>("attention one head", {F32({1, 3, 15}, -1, 1)}, AttentionSettings{}),
          Case<AttentionGrad>("attention_grad", {qkv, qkv_y, qkv_l, qkv_y}, plain),
          Case<AttentionGrad>("attention_grad masked", {qkv, lengths, qkv_y, qkv_l, qkv_y}, masked),
          Case<AttentionGrad>("attention_grad q k v", {q, k, k, q_y, q_l, q_y}, causal),
          Case<AttentionGrad>("attention_grad q k v lengths", {q, k, k, lengths, q_y, q_l, q_y}, plain),
      });
}

// Sizes and options of a recurrent test case, and the output gradients that its gradient op gets.
struct RecurrentTry {
  std::string name;
  int64_t time, batch, units;
  RecurrentOptions options;
  unsigned given;
  int derivatives;
};

// Small cases for numeric derivatives; large ones for loops over blocks of sixteen units and several rows.
inline std::vector<RecurrentTry> RecurrentTries() {
  return {
      {"", 3, 2, 3, {}, 0b11, 1},
      {" reverse", 3, 2, 2, {.reverse = true}, 0b01, 1},
      {" lengths", 4, 3, 2, {.lengths = true}, 0b11, 1},
      {" initial", 2, 2, 3, {.initial = true}, 0b10, 1},
      {" all", 4, 3, 2, {.reverse = true, .lengths = true, .initial = true}, 0b1111, 1},
      {" no steps", 0, 2, 2, {.initial = true}, 0b11, 0},
      {" no rows", 3, 0, 2, {.lengths = true}, 0b11, 0},
      {" one step", 1, 1, 16, {}, 0b01, 0},
      {" large", 5, 13, 37, {.lengths = true, .initial = true}, 0b11, 0},
      {" large reverse", 6, 32, 64, {.reverse = true, .initial = true}, 0b11, 0},
      {" large all", 4, 8, 100, {.reverse = true, .lengths = true, .initial = true}, 0b01, 0},
  };
}

inline void AddLengths(const RecurrentTry& c, std::vector<SampleInput>* inputs) {
  // A length below 0, and one beyond the last step.
  if (c.options.lengths) {
    inputs->push_back(Integers(DType::kI32, {c.batch}, -1, static_cast<float>(c.time + 1)));
  }
}

inline void AddGiven(const std::vector<Shape>& outputs, unsigned given, std::vector<SampleInput>* inputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    if ((given >> i & 1) != 0) inputs->push_back(F32(outputs[i], -1, 1));
  }
}

// The weights are small, so that cells with many units do not saturate.
inline SampleInput StateWeight(int64_t units, int64_t gates) {
  const float size = units > 4 ? 0.2f : 0.8f;
  return F32({units, gates * units}, -size, size);
}

inline void AddRecurrentCases(OpCaseList& cases) {
  for (const RecurrentTry& c : RecurrentTries()) {
    const Shape sequence{c.batch, c.time, c.units}, steps{c.time, c.batch, c.units}, state{c.batch, c.units};
    const auto z = [&](int64_t gates) { return F32({c.time, c.batch, gates * c.units}, -1, 1); };
    const auto gates = [&](int64_t count) { return F32({c.time, c.batch, count * c.units}, 0, 1); };
    const auto add = [&](OpCase op_case) { cases.push_back(Derivatives(c.derivatives, std::move(op_case))); };
    const auto initial = [&](std::vector<SampleInput>* inputs, size_t states) {
      AddLengths(c, inputs);
      if (c.options.initial) inputs->insert(inputs->end(), states, F32(state, -1, 1));
    };
    const auto grad = [&](std::vector<SampleInput> kept, const std::vector<Shape>& outputs) {
      AddLengths(c, &kept);
      AddGiven(outputs, c.given, &kept);
      return kept;
    };

    std::vector<SampleInput> lstm = {z(4), StateWeight(c.units, 4)};
    initial(&lstm, 2);
    add(Case<Lstm>("lstm" + c.name, lstm, c.options));
    const std::vector<Shape> lstm_outputs = {sequence, state, state, gates(4).type.shape, steps, steps};
    cases.push_back(
        Derivatives(0, Case<LstmGrad>("lstm_grad" + c.name,
                                      grad({gates(4), StateWeight(c.units, 4), F32(steps)}, lstm_outputs),
                                      c.options, c.given)));
    for (const bool before : {true, false}) {
      const std::string name = (before ? "" : " reset first") + c.name;
      std::vector<SampleInput> gru = {z(3), StateWeight(c.units, 3)};
      if (before) gru.push_back(F32({c.units}, -1, 1));
      initial(&gru, 1);
      add(Case<Gru>("gru" + name, gru, c.options, before));
      const std::vector<Shape> outputs = {sequence, state, gates(3).type.shape, steps, steps};
      const auto kept = {gates(3), StateWeight(c.units, 3), F32(steps), F32(steps)};
      cases.push_back(
          Derivatives(0, Case<GruGrad>("gru_grad" + name, grad(kept, outputs), c.options, before, c.given)));
    }
    for (const bool relu : {true, false}) {
      const std::string name = (relu ? " relu" : "") + c.name;
      // Relu has no derivative at 0. Inputs of 1 to 2 keep all sums above it.
      std::vector<SampleInput> rnn = {relu ? F32(z(1).type.shape, 2, 3) : z(1), StateWeight(c.units, 1)};
      if (relu) rnn[1].low = -0.02f;
      initial(&rnn, 1);
      add(Case<Rnn>("rnn" + name, rnn, c.options, relu));
      const std::vector<Shape> outputs = {sequence, state, steps, steps};
      const auto kept = {F32(steps, -1, 1), StateWeight(c.units, 1)};
      cases.push_back(
          Derivatives(0, Case<RnnGrad>("rnn_grad" + name, grad(kept, outputs), c.options, relu, c.given)));
    }
  }
  const TensorType ids{DType::kI32, {5, 4}};
  cases.push_back(
      Derivatives(0, Case<SequenceLengths>("sequence_lengths", {Integers(DType::kI32, ids.shape, 0, 1)}, 0)));
}

inline void AddSequenceCases(OpCaseList& cases) {
  AddAttentionCases(cases);
  AddRecurrentCases(cases);
}

}  // namespace leat::ops::cases
