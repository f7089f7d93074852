// On paper nothing can be unfolded or asked for.

export const paper = $state({ isPrinting: false })
