//! The families, one file each, with hyperparameters and the model as defined in its paper.

mod amoebanet;
mod bert;
mod deepseek;
mod dlrm;
mod gnmt;
mod gpt;
mod inception;
mod llama;
mod nasnet;
mod resnet;
mod rnnlm;
mod transformer_xl;
mod unet;
mod vgg;
mod vit;
mod wavenet;

use super::Family;

/// All families: images, text, audio, recommendation.
pub const FAMILIES: &[&dyn Family] = &[
    &resnet::FAMILY,
    &inception::FAMILY,
    &vgg::FAMILY,
    &nasnet::FAMILY,
    &amoebanet::FAMILY,
    &vit::FAMILY,
    &unet::FAMILY,
    &bert::FAMILY,
    &gpt::FAMILY,
    &llama::FAMILY,
    &llama::MIXTURE,
    &deepseek::FAMILY,
    &transformer_xl::FAMILY,
    &rnnlm::FAMILY,
    &gnmt::FAMILY,
    &wavenet::FAMILY,
    &dlrm::FAMILY,
];
