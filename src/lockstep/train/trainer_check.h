// lockstep/train/trainer_check.h
//
// Which settings of a Trainer go together.
#pragma once

#include <cstddef>
#include <functional>

#include "lockstep/comm/communicator.h"
#include "lockstep/parallel/chain.h"
#include "lockstep/train/trainer.h"

namespace lockstep::train {

/// Fault::Usage on settings that make no sense, alone or beside others.
void check(const TrainerSettings& settings);

/// The same of all that a run finds out of them later, when it is laid out so; `sparse`: some gradients come as rows.
void check(const TrainerSettings& settings, const Layout& layout, bool sparse);

/// Fault::Usage if it follows the loss of validations and there are none.
void check_schedule(const Schedule& schedule, const TrainingData& data);

/// Fault::Usage on a layer that draws numbers of its own, which would depend on the number of ranks.
void check_exact(const torch::nn::Module& model);

/// Fault::Usage on a norm of torch::nn in a link that is computed again: it would count its samples twice.
void check_recomputed(const torch::nn::Module& model, const parallel::Chain& chain,
                      const std::function<bool(std::size_t link)>& recomputes);

/// Fault::Usage on settings that do not go with a model that is cut over ranks.
void check_cut(const TrainerSettings& settings);
/// Fault::Usage on what does not go with layers that are split over ranks.
void check_split(const TrainerSettings& settings);
void check_split(const torch::nn::Module& model);

/// Why they do not; "": they do.
std::string why_not_cut(const TrainerSettings& settings);

/// Whether the step is fused, see TrainerSettings::fuse_step. Fault::Usage if it is asked for and cannot be.
bool fuses(const TrainerSettings& settings, const torch::nn::Module& model, const comm::Communicator& group);
/// The same of a model of which this is known: `sparse` gradients, ranks that have a part of it each.
bool fuses(const TrainerSettings& settings, bool sparse, bool cut, int data_ranks);

/// Whether ranks of the data axis have different weights, gradients or states of the optimiser. Fault::Usage if
/// something else that is asked for does not go with it; `sparse` names what has gradients that come as rows, "":
/// nothing does.
bool shares_out(const TrainerSettings& settings, bool fused, const std::string& sparse);
/// The same of this model.
bool shares_out(const TrainerSettings& settings, bool fused, const torch::nn::Module& model);
/// What does not go with it; "": nothing.
std::string why_not_shared_out(const TrainerSettings& settings);
/// How many ranks of the data axis have one copy together. Fault::Usage if copies would be uneven.
int ranks_of_copy(const TrainerSettings& settings, int data_ranks);
/// The least parallel.zero that parallel.offload goes with.
int least_zero(const std::string& offload);

}  // namespace lockstep::train
