// The address of the picture that fills the window, or nothing. It belongs to the page: a conversation's rows come and go.

export const enlarged = $state({ url: '' })
